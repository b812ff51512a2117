"""The budgets of a run, against what it has spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evo.errors import BadInput
from evo.search.active_time import ended_periods, seconds_until
from islands.queries.progress import RunProgress
from islands.types import RunRecord

UNITS = {
    "iterations": "iterations per problem",
    "max_answers": "answers",
    "max_tokens": "tokens",
    "max_cost": "of cost",
    "max_seconds": "seconds",
}


def check_budgets(run: RunRecord, progress: RunProgress, changed: Mapping[str, Any]) -> None:
    """BadInput where a budget of `changed` is below what the run has spent: its plan and its results would shrink."""
    periods = ended_periods(run.summary, run.created)
    a_group = int(run.config.get("rollouts", 1)) * int(run.config.get("answers", 1))
    spent = {
        "iterations": max((problem.next_iteration for problem in progress.problems.values()), default=0),
        "max_answers": progress.groups * a_group,
        "max_tokens": progress.tokens,
        "max_cost": progress.cost,
        "max_seconds": seconds_until(periods, float("inf")),
    }
    for key, unit in UNITS.items():
        budget = changed.get(key)
        if budget is not None and budget < spent[key]:
            flag = "--" + key.replace("_", "-")
            raise BadInput(
                f"run {run.name} has had {_number(spent[key])} {unit} already; {flag} {_number(budget)} is below that"
            )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
