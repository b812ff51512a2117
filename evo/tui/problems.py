"""The table of problems. A row has for every arm the iteration of its solution or its best fitness, whether that is
won, lost or level against the reference, and a curve of its best fitness."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.style import Style
from rich.text import Text

from evo.comparison.results import Results, Standings, mean_known, standings
from evo.progress.rows import NONE, against_cell, common_prefix, outcome_cell, target_cell
from evo.progress.snapshot import Snapshot
from evo.tui.line import clean, shorten, width_of
from evo.tui.palette import STRONG, Palette
from evo.tui.plot import sparkcurve
from problems.objectives import fitness_objective

NAME, WON = -1, -2
"""Orders of the table, in addition to those by an arm, which are the arms' numbers."""
OUTCOME, GAP, MOST_BAR, LEAST_BAR = 9, 12, 24, 5
MOST_CURVES = 2_000


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


class ProblemTable:
    """Columns and rows of the table. Standings and curves are computed again only for other results."""

    def __init__(self) -> None:
        self._curves: dict[object, str] = {}
        self._of: tuple[Results | None, ...] = ()
        self._made: Standings | None = None

    def standing(self, snapshot: Snapshot) -> Standings:
        results = tuple(arm.results for arm in snapshot.arms)
        same = len(results) == len(self._of) and all(a is b for a, b in zip(results, self._of, strict=True))
        if self._made is None or not same:
            reference = next((row for row, arm in enumerate(snapshot.arms) if arm.name == snapshot.reference), None)
            self._made, self._of = standings(results, reference, len(snapshot.problems)), results
        return self._made

    def rows(self, snapshot: Snapshot, choice: TableChoice = TableChoice()) -> list[int]:
        """Numbers of the problems shown, in order."""
        names, part = [one.name for one in snapshot.problems], choice.search.casefold()
        standing = self.standing(snapshot)
        hidden = choice.unsolved & ~standing.unsolved | choice.differing & ~standing.differing
        rows = [row for row, name in enumerate(names) if part in name.casefold() and not hidden[row]]
        if choice.order == NAME:
            rows.sort(key=lambda row: natural(names[row]))
        elif choice.order == WON:
            rows.sort(key=np.nan_to_num(-standing.sign).sum(axis=0).__getitem__)
        elif choice.order is not None:
            rows.sort(key=partial(_outcome_order, snapshot, standing, choice.order))
        return rows[::-1] if choice.reverse else rows

    def columns(self, snapshot: Snapshot, width: int, palette: Palette) -> list[Text]:
        """The titles: the problem's, and for each arm its outcome, its gap to the reference, and a curve if there is
        room."""
        prefix = clean(common_prefix([problem.name for problem in snapshot.problems])).rstrip("/:_-")
        titles = [Text(prefix or "problem", palette.muted)]
        alone, bar = len(snapshot.arms) == 1, self._bar(snapshot, width)
        for number, arm in enumerate(snapshot.arms):
            name = "outcome" if alone else f"{palette.mark(number)} {shorten(arm.name, max(6, OUTCOME + bar - 4))}"
            titles.append(Text(name, palette.muted if alone else palette.arm(number)))
            titles += [Text("against", palette.muted)] * self._referred(snapshot, number)
            titles += [Text("best so far" if bar > 10 else "best", palette.muted)] * (bar > 0)
        if alone:
            titles += [Text("target", palette.muted)] * snapshot.has_targets + [Text("iterations", palette.muted)]
        return titles

    def row(self, snapshot: Snapshot, problem: int, width: int, palette: Palette) -> list[Text]:
        """The cells of a problem's row."""
        standing, bar = self.standing(snapshot), self._bar(snapshot, width)
        names, record = [one.name for one in snapshot.problems], snapshot.problems[problem]
        objective = fitness_objective(record.metrics)
        name = names[problem][len(common_prefix(names)) :]
        cells = [Text(shorten(name, self._name_width(snapshot, width)))]
        low, high = _scale(snapshot, problem)
        for number, arm in enumerate(snapshot.arms):
            shown = outcome_cell(standing, number, problem, arm.seeds, objective)
            whole = shown.mark == "solved" and standing.solved[number, problem] == 1.0
            cells.append(Text("" if arm.results is None else shown.text, STRONG if whole else Style()))
            if self._referred(snapshot, number):
                gap = against_cell(standing, number, problem, objective)
                style = {"above": palette.good, "below": palette.bad}.get(gap.mark, palette.muted)
                cells.append(Text(gap.text.removeprefix(NONE), style))
            if bar:
                cells.append(Text(self._curve(snapshot, number, problem, bar, low, high), palette.arm(number)))
        if len(snapshot.arms) == 1:
            arm = snapshot.arms[0]
            cells += [Text(target_cell(record).text, palette.muted)] * snapshot.has_targets
            done = 0 if arm.results is None else int(arm.results.done[problem].sum())
            cells.append(Text(f"{done:,}/{snapshot.iterations * arm.seeds:,}", palette.muted))
        return cells

    def totals(self, snapshot: Snapshot, palette: Palette) -> Text:
        """The problems won, lost and level of each arm against the reference; empty without one."""
        text = Text()
        for number, arm in enumerate(snapshot.arms):
            if self._referred(snapshot, number):
                won, lost, level = self.standing(snapshot).counts(number)
                text.append(f"{palette.mark(number)} {shorten(arm.name, 16)} ", palette.arm(number))
                text.append(f"{won} won", palette.good).append(" ").append(f"{lost} lost", palette.bad)
                text.append(f" {level} level   ", palette.muted)
        return text

    def _referred(self, snapshot: Snapshot, number: int) -> bool:
        return snapshot.reference is not None and snapshot.arms[number].name != snapshot.reference

    def _name_width(self, snapshot: Snapshot, width: int) -> int:
        names = [problem.name for problem in snapshot.problems]
        longest = max((width_of(clean(name)) for name in names), default=5) - width_of(clean(common_prefix(names)))
        return max(5, min(longest, 30 if width >= 110 else 16))

    def _bar(self, snapshot: Snapshot, width: int) -> int:
        """Cells of each curve, 0 if there is no room for it."""
        arms = len(snapshot.arms)
        titles = [min(width_of(clean(arm.name)) + 2, 2 * OUTCOME) for arm in snapshot.arms]
        prefix = width_of(clean(common_prefix([problem.name for problem in snapshot.problems])))
        used = max(self._name_width(snapshot, width), prefix) + 4 + sum(max(OUTCOME, title) + 2 for title in titles)
        used += 26 if arms == 1 else 0
        used += sum(self._referred(snapshot, number) for number in range(arms)) * (GAP + 4)
        bar = (width - used) // arms - 2
        return min(bar, 60 if arms == 1 else MOST_BAR) if bar >= LEAST_BAR else 0

    def _curve(self, snapshot: Snapshot, number: int, problem: int, bar: int, low: float, high: float) -> str:
        """How the arm's best value became better. It is only appended to, so its end identifies it."""
        results = snapshot.arms[number].results
        if results is None or results.best is None:
            return ""
        known = int(np.searchsorted(results.times, results.done[problem].max())) + 1
        best = results.best[problem]
        key = (number, problem, bar, low, high, known, best.shape, best[:, -1].tobytes())
        if key not in self._curves:
            if len(self._curves) > MOST_CURVES:
                self._curves.clear()
            mean = mean_known(best, axis=0) * results.direction[problem]
            mean[known:] = np.nan
            self._curves[key] = sparkcurve(mean, bar, low, high)
        return self._curves[key]


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which maze:hard/9 comes before maze:hard/10."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name) if piece]


def _outcome_order(snapshot: Snapshot, standing: Standings, arm: int, row: int) -> tuple[float, float, float]:
    """Solved by most seeds first, of those the soonest, and the unsolved by the best value, the best first."""
    best, lower = float(standing.best[arm, row]), fitness_objective(snapshot.problems[row].metrics).lower
    share = np.nan_to_num(standing.solved[arm, row])
    return -share, standing.took[arm, row], np.inf if best != best else best if lower else -best


def _scale(snapshot: Snapshot, problem: int) -> tuple[float, float]:
    """One scale for all arms of a row, upwards: from the worst first value to the target or the best found."""
    low, high, record = np.inf, -np.inf, snapshot.problems[problem]
    target, direction = target_cell(record).value, -1.0 if fitness_objective(record.metrics).lower else 1.0
    for arm in snapshot.arms:
        if arm.results is not None and arm.results.best is not None:
            # rising, so that the last is the highest; fmin and fmax leave NaN out
            rising = direction * arm.results.best[problem]
            low = min(low, float(np.fmin.reduce(rising, axis=None, initial=np.inf)))
            high = max(high, float(np.fmax.reduce(rising[:, -1], initial=-np.inf)))
    if low > high:
        return 0.0, 1.0
    return low, max(high, direction * target) if isinstance(target, float) else high


def legend(snapshot: Snapshot) -> str:
    """What the cells mean."""
    solved = "@N solved after N iterations, else " if snapshot.has_targets else ""
    against = f" · against {shorten(snapshot.reference, 16)}" if snapshot.reference else ""
    lower = any(fitness_objective(problem.metrics).lower for problem in snapshot.problems)
    return f"{solved}the best value so far{', ↓ lower is better' * lower}{against}"
