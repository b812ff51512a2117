"""Records of runs, made by hand."""

from __future__ import annotations

from typing import Any

from islands.types import RunRecord


def run_record(
    name: str = "a", status: str = "running", seed: int = 0, reason: str = "", summary: Any = None, **config: Any
) -> RunRecord:
    """A run of the arm `name`, 40 iterations of 3 answers."""
    config = {"policy": f"embedded:{name}", "rollouts": 1, "answers": 3, "iterations": 40, **config}
    return RunRecord(seed, f"{name}/s{seed}", status, reason, "", seed, "", config, summary or {}, None, name, 0.0, 0.0)
