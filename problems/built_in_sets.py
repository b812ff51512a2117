"""What `evo problems` lists of the sets that ship: size, objectives, where they come from, under which licence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from problems.maths.sets import TASKS
from problems.maze.sets import HARD_TRIES, SIZES, rules_of
from problems.programs.sets import set_sizes
from problems.text.kinds import KINDS
from problems.text.sets import describe_kind

_OWN = "Apache-2.0"
_PAPER = "generator of the VPO paper's mazes"
_MAZES = {
    "test": ("9x9 mazes with conflicting goals, held out (the VPO paper's generator, its seed 4242)", _PAPER),
    "hard": (f"9x9 mazes whose optimum a planner that learns nothing misses in {HARD_TRIES} tries", _PAPER),
    "compromise": ("9x9 mazes whose optimum takes items of both zones and leaves some", "own"),
    "large": ("13x13 mazes, four zones of which a walk can have two or three, seven objectives", "own"),
    "train": ("9x9 mazes to learn from (seed 42)", _PAPER),
    "compromise-train": ("mazes of the kind of maze:compromise, to learn from", "own"),
    "large-train": ("mazes of the kind of maze:large, to learn from", "own"),
}
"""Description and source."""


def built_in_sets() -> list[dict[str, Any]]:
    """Every set that ships, as rows of problems.registry.describe_sets."""
    rows = [
        describe_set(f"maze:{name}", told, SIZES[name], rules_of(name).objectives, source, _OWN)
        for name, (told, source) in _MAZES.items()
    ]
    for name, size in set_sizes().items():
        level = "all three difficulties" if name == "shipped" else f"the {name} ones"
        told = f"Python functions and stdin programs judged by test cases, {level}"
        rows.append(describe_set(f"programs:{name}", told, size, ("case_1", "..."), "own", _OWN))
    rows.append(
        describe_set(
            *("maths:all", "constructions of extremal mathematics, all of those below", len(TASKS)),
            *(("size_1", "..."), "see each", _OWN),
        )
    )
    for task in TASKS.values():
        objectives = [f"{task.symbol}{size}" for size in task.sizes()]
        rows.append(describe_set(f"maths:{task.name}", task.title, 1, objectives, task.source, task.licence))
    rows += [describe_set(*told) for kind in KINDS.values() for told in describe_kind(kind)]
    return rows


def describe_set(
    name: str, told: str, count: int | None, objectives: Sequence[str] = (), source: str = "", licence: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "count": count,
        "objectives": list(objectives),
        "description": told,
        "source": source,
        "licence": licence,
    }
