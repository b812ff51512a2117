"""Rows as the records that the rest of the program sees."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from islands.types import ProblemRecord, RunRecord


def run_record(row: Row[Any]) -> RunRecord:
    """From a row of the table `runs`."""
    values = dict(row._mapping)
    del values["owner"]
    return RunRecord(**values)


def problem_record(row: Row[Any]) -> ProblemRecord:
    """From a row of the table `problems`."""
    values = dict(row._mapping)
    values["objectives"] = tuple(values["objectives"])
    if values["dimensions"] is not None:
        values["dimensions"] = tuple(values["dimensions"])
    return ProblemRecord(**values)
