"""The screen's table of problems: which are shown, in what order, and how its cells are painted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.text import Text

from evo.progress.rows import Table, common_prefix
from evo.progress.snapshot import Snapshot
from evo.tui.line import clean, shorten
from evo.tui.palette import Palette
from problems.objectives import fitness_objective

NAME, WON = -1, -2
"""Orders of the table, in addition to those by an arm, which are the arms' numbers."""


@dataclass(frozen=True)
class TableChoice:
    """Which problems the table shows, and in what order.

    search: a part of the name, in any case
    order: None for the original order; NAME; WON by how often the arms are ahead of the reference; else by an arm's
        outcome
    """

    search: str = ""
    unsolved: bool = False
    differing: bool = False
    order: int | None = None
    reverse: bool = False

    def describe(self, snapshot: Snapshot, shown: int) -> str:
        """The filters and the order in a few words; "" for neither."""
        parts = [f"/{self.search}"] * bool(self.search) + ["unsolved"] * self.unsolved + ["differing"] * self.differing
        parts = [f"{shown:,} of {len(snapshot.problems):,}", *parts] if parts else []
        if self.order is not None or self.reverse:
            named = {None: "number", NAME: "name", WON: "won"} | {n: arm.name for n, arm in enumerate(snapshot.arms)}
            parts.append(f"by {named[self.order]}" + " reversed" * self.reverse)
        return clean(" · ".join(parts))


def chosen_problems(snapshot: Snapshot, choice: TableChoice) -> list[int]:
    """Numbers of the problems shown, in order."""
    names, part, standing = [one.name for one in snapshot.problems], choice.search.casefold(), snapshot.standing
    hidden = choice.unsolved & ~standing.unsolved | choice.differing & ~standing.differing
    rows = [row for row, name in enumerate(names) if part in name.casefold() and not hidden[row]]
    if choice.order == NAME:
        rows.sort(key=lambda row: natural(names[row]))
    elif choice.order == WON:
        rows.sort(key=np.nan_to_num(-standing.sign).sum(axis=0).__getitem__)
    elif choice.order is not None:
        rows.sort(key=partial(_outcome_order, snapshot, choice.order))
    return rows[::-1] if choice.reverse else rows


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which maze:hard/9 comes before maze:hard/10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name) if piece]


def _outcome_order(snapshot: Snapshot, arm: int, row: int) -> tuple[float, float, float]:
    """Solved by most seeds first, of those the soonest, and the unsolved by the best value, the best first."""
    standing, lower = snapshot.standing, fitness_objective(snapshot.problems[row].metrics).lower
    best, share = float(standing.best[arm, row]), np.nan_to_num(standing.solved[arm, row])
    return -share, standing.took[arm, row], np.inf if best != best else best if lower else -best


def problem_titles(table: Table, snapshot: Snapshot, palette: Palette) -> list[Text]:
    """Of the columns; the first names what the problems' names have in common."""
    prefix = clean(common_prefix([problem.name for problem in snapshot.problems])).rstrip("/:_-")
    alone, titles = len(snapshot.arms) == 1, []
    for column in table.columns:
        title = prefix or "problem" if column.kind == "problem" else column.kind or column.title
        if alone or column.arm is None:
            titles.append(Text(title, palette.muted))
        else:
            name = title if column.kind == "against" else shorten(column.title, 18)
            titles.append(Text(f"{palette.mark(column.arm)} {name}", palette.arm(column.arm)))
    return titles


def problem_row(table: Table, snapshot: Snapshot, row: int, width: int, palette: Palette) -> list[Text]:
    """The cells of a problem. width: of the screen"""
    prefix = len(common_prefix([problem.name for problem in snapshot.problems]))
    name, *cells = table.rows[row]
    return [Text(shorten(name.text[prefix:], 30 if width >= 110 else 16)), *map(palette.paint, cells)]


def describe_wins(snapshot: Snapshot, palette: Palette) -> Text:
    """The problems won, lost and level of each arm against the reference; empty without one."""
    text = Text()
    for number, arm in enumerate(snapshot.arms):
        if snapshot.reference not in (None, arm.name):
            won, lost, level = snapshot.standing.counts(number)
            text.append(f"{palette.mark(number)} {shorten(arm.name, 16)} ", palette.arm(number))
            text.append(f"{won} won", palette.good).append(" ").append(f"{lost} lost", palette.bad)
            text.append(f" {level} level   ", palette.muted)
    return text


def legend(snapshot: Snapshot) -> str:
    """What the cells mean."""
    solved = "@N solved after N iterations, else " if snapshot.has_targets else ""
    against = f" · against {shorten(snapshot.reference, 16)}" if snapshot.reference else ""
    lower = any(fitness_objective(problem.metrics).lower for problem in snapshot.problems)
    return f"{solved}the best value so far{', ↓ lower is better' * lower}{against}"
