"""Families of sets that addresses name, and the rows of `evo problems`: size, objectives, source, licence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from problems.contract import Problem

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox

_OWN = "Apache-2.0"
_PAPER = "generator of the VPO paper's mazes"
_MAZES = {
    "test": ("9x9 mazes with conflicting goals, held out (the VPO paper's generator, its seed 4242)", _PAPER),
    "hard": ("9x9 mazes whose optimum a planner without learning misses in {tries} tries", _PAPER),
    "compromise": ("9x9 mazes whose optimum takes items of both zones and leaves some", "own"),
    "large": ("13x13 mazes, four zones of which a walk can have two or three, seven objectives", "own"),
    "train": ("9x9 mazes to learn from (seed 42)", _PAPER),
    "compromise-train": ("mazes of the kind of maze:compromise, to learn from", "own"),
    "large-train": ("mazes of the kind of maze:large, to learn from", "own"),
}
"""Description and source."""


@dataclass(frozen=True)
class ProblemSets:
    """A family of sets with addresses NAME:REST, NAME:REST/INDEX and NAME:REST/FIRST-LAST.

    load: (REST, at most this many or None, what opens the sandbox) -> the problems; raises BadAddress, one line
    describe: the rows of `describe_sets` for its sets
    """

    load: Callable[[str, int | None, Callable[[], Sandbox]], Sequence[Problem]]
    describe: Callable[[], list[dict[str, Any]]]


def describe_set(
    name: str, description: str, count: int | None, objectives: Sequence[str] = (), source: str = "", licence: str = ""
) -> dict[str, Any]:
    """A row of `describe_sets`."""
    return {
        "name": name,
        "count": count,
        "objectives": list(objectives),
        "description": description,
        "source": source,
        "licence": licence,
    }


def built_in_sets() -> list[dict[str, Any]]:
    """Every built-in set, as rows of problems.registry.describe_sets."""
    from problems.maze.sets import HARD_TRIES, SIZES, rules_of  # only this list needs the sets themselves
    from problems.programs.sets import set_sizes

    rows = [
        describe_set(
            f"maze:{name}", text.format(tries=HARD_TRIES), SIZES[name], rules_of(name).objectives, source, _OWN
        )
        for name, (text, source) in _MAZES.items()
    ]
    for name, size in set_sizes().items():
        level = "all three difficulties" if name == "shipped" else f"the {name} ones"
        text = f"Python functions and stdin programs judged by test cases, {level}"
        rows.append(describe_set(f"programs:{name}", text, size, ("case_1", "..."), "own", _OWN))
    return rows
