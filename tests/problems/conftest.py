"""What tests of problems write: a scorer's file, a row of a data set."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from problems import Problem, resolve


@pytest.fixture
def scorer(tmp_path: Path) -> Callable[..., Problem]:
    """scorer(TEXT): the problem of a scorer's file with this text."""

    def write(text: str, name: str = "scorer.py") -> Problem:
        (tmp_path / name).write_text(text)
        (problem,) = resolve(str(tmp_path / name))
        return problem

    return write


@pytest.fixture
def posed(tmp_path: Path) -> Callable[..., Any]:
    """posed(**ROW): the problem of a data set's file with this row, which is of MBPP where it has a list of tests."""

    def write(**row: object) -> Any:
        (tmp_path / "own.jsonl").write_text(json.dumps({"text": "t", **row} if "test_list" in row else row))
        (problem,) = resolve(f"programs:{tmp_path / 'own.jsonl'}")
        return problem

    return write


@pytest.fixture
def warned(scorer):
    """The same with the warnings that it told."""

    def write(text, make=scorer):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            return make(text), [str(warning.message) for warning in told]

    return write
