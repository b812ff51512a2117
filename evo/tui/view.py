"""The viewer's choices: the panel, the problem and arm, and which problems are shown in what order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evo.comparison.results import Standings
from evo.monitor.snapshot import Snapshot

PANELS = ("problems", "curves", "population", "operators", "improvements", "training", "errors")
SIDE = "side"
"""The right column of a wide screen, which is focused as a whole."""
NAME, WON = -1, -2
"""Orders of the table of problems, in addition to those by an arm, which are the arms' numbers."""


@dataclass(frozen=True)
class TableChoice:
    """Which problems the table shows, and in what order.

    search: a part of the name, in any case; part: the set that names begin with, "" for all
    order: None for the original order; NAME; WON by how often the arms are ahead of the reference; else by an arm's
        outcome
    """

    search: str = ""
    unsolved: bool = False
    differing: bool = False
    part: str = ""
    order: int | None = None
    reverse: bool = False

    @property
    def narrow(self) -> bool:
        """Whether some problems may be left out."""
        return bool(self.search or self.unsolved or self.differing or self.part)


@dataclass(frozen=True)
class View:
    """panel: the one shown if there is no room for all; on a wide screen SIDE if the right column is focused
    problem, arm: chosen, by number
    live: this screen can pause and stop the search, not only show it
    paused: the search is, or the picture if the screen is not live; stopping: the search was stopped
    """

    panel: str = "problems"
    problem: int = 0
    arm: int = 0
    detail: bool = False
    live: bool = False
    paused: bool = False
    stopping: bool = False
    choice: TableChoice = TableChoice()


def panels(snapshot: Snapshot) -> list[str]:
    """Those that have something to show, in the order in which tab goes through them."""
    none = {"training"} if not any(arm.training for arm in snapshot.arms) else set()
    if not any(arm.operators for arm in snapshot.arms):
        none.add("operators")
    if not any(arm.telemetry.totals.errors or arm.failed for arm in snapshot.arms):
        none.add("errors")
    return [panel for panel in PANELS if panel not in none]


def select(snapshot: Snapshot, standing: Standings, choice: TableChoice) -> list[int]:
    """Numbers of problems, in the order to be shown."""
    names = [problem.name for problem in snapshot.problems]
    rows = np.ones(len(names), dtype=bool)
    if choice.unsolved:
        rows &= standing.unsolved
    if choice.differing:
        rows &= standing.differing
    wanted = choice.search.casefold()
    kept = [
        row
        for row in np.flatnonzero(rows).tolist()
        if wanted in names[row].casefold() and (not choice.part or part_of(names[row]) == choice.part)
    ]
    if choice.order == NAME:
        kept.sort(key=lambda row: natural(names[row]))
    elif choice.order == WON:
        ahead = np.nan_to_num(standing.sign, nan=0.0).sum(axis=0)
        kept.sort(key=lambda row: -ahead[row])
    elif choice.order is not None and choice.order < len(snapshot.arms):
        kept.sort(key=lambda row: _outcome_order(standing, choice.order or 0, row))
    return kept[::-1] if choice.reverse else kept


def parts_of(names: Sequence[str]) -> list[str]:
    """The sets that the problems come from, in the order in which they first come."""
    return list(dict.fromkeys(map(part_of, names)))


def part_of(name: str) -> str:
    """maze:hard of maze:hard/5; the whole name if it is of no set."""
    return name.rpartition("/")[0] or name


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which maze:hard/9 comes before maze:hard/10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name) if piece]


def _outcome_order(standing: Standings, arm: int, row: int) -> tuple[float, float, float]:
    """Solved by most seeds first, of those the soonest, and the unsolved by best fitness, the highest first."""
    share, best = float(standing.solved[arm, row]), float(standing.best[arm, row])
    return (
        -share if share > 0 else 0.0,
        float(standing.took[arm, row]) if share > 0 else 0.0,
        -best if best == best else np.inf,
    )
