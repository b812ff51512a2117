"""The sets of `maths:` as the entry point "maths" of "evo.problems" names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from problems.close_names import did_you_mean
from problems.contract import BadAddress
from problems.plugins.maths.problem import MathsProblem
from problems.plugins.maths.sets import TASKS
from problems.problem_sets import ProblemSets, describe_set

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox


def load(name: str, limit: int | None, sandbox: Callable[[], Sandbox]) -> list[MathsProblem]:
    """The problem of this name, or `all`. Raises BadAddress."""
    if name == "all":
        return [MathsProblem(task, sandbox) for task in TASKS.values()][:limit]
    if name not in TASKS:
        known = [f"maths:{known}" for known in ("all", *TASKS)]
        raise BadAddress(
            f"there is no problem maths:{name}{did_you_mean(f'maths:{name}', known)}; there are {', '.join(known)}"
        )
    return [MathsProblem(TASKS[name], sandbox)]


def describe() -> list[dict[str, Any]]:
    """A row for all problems together, and one for each."""
    rows = [
        describe_set(
            "maths:all",
            "constructions of extremal mathematics, all of those below",
            len(TASKS),
            ("size_1", "..."),
            "see each",
            "Apache-2.0",
        )
    ]
    for task in TASKS.values():
        objectives = [f"{task.symbol}{size}" for size in task.sizes()]
        rows.append(describe_set(f"maths:{task.name}", task.title, 1, objectives, task.source, task.licence))
    return rows


SETS = ProblemSets(load, describe)
