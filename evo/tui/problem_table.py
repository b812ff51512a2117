"""The table of problems. A row has for every arm the iteration of its solution or its best fitness, whether that is
won, lost or level against the reference, and a curve of its best fitness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evo.comparison.results import LEVEL, Results, Standings, standings
from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.tui.line import PLAIN, Line, Lines, clean, shorten, width_of
from evo.tui.numbers import common_prefix, fitness, signed, sparkcurve
from evo.tui.palette import BAD, DIM, GOOD, LEGEND, SELECTED, STRONG, link, look
from evo.tui.view import NAME, View, select


class StandingsCache:
    """Standings that are recomputed only if some arm's results changed, and their curves (ProblemTable)."""

    def __init__(self) -> None:
        self.curves: dict[object, str] = {}
        self._of: tuple[Results | None, ...] = ()
        self._made: Standings | None = None

    def of(self, snapshot: Snapshot) -> Standings:
        results = tuple(arm.results for arm in snapshot.arms)
        same = len(results) == len(self._of) and all(a is b for a, b in zip(results, self._of, strict=True))
        if self._made is None or not same:
            reference = next((row for row, arm in enumerate(snapshot.arms) if arm.name == snapshot.reference), None)
            self._made, self._of = standings(results, reference, len(snapshot.problems)), results
        return self._made


def outcome_text(standing: Standings, arm: int, problem: int, seeds: int) -> str:
    """@12: solved after 12 iterations; 1/3@12: by one seed of three; else the best fitness; "-" before any."""
    share = standing.solved[arm, problem]
    if not share > 0:  # NaN too
        return fitness(float(standing.best[arm, problem]))
    at = f"@{standing.took[arm, problem]:.0f}"
    return at if share == 1.0 else f"{round(share * seeds)}/{seeds}{at}"


def gap_text(standing: Standings, arm: int, problem: int) -> str:
    """+12it: twelve iterations sooner than the reference; -.250: a best fitness that much lower; = for level."""
    sign, gap = standing.sign[arm, problem], standing.gap[arm, problem]
    if sign != sign:
        return ""
    if sign == 0:
        return "="
    mark, size = "+" if sign > 0 else "-", abs(float(gap))
    if standing.timed[arm, problem]:
        return f"{mark}{size:.0f}it"
    # more seeds have solved it, which the mean of the best fitnesses does not show
    return mark + signed(size).lstrip("+") if sign * gap >= LEVEL else mark


OUTCOME, GAP, MOST_BAR, LEAST_BAR = 8, 7, 24, 5
TARGET, ITERATIONS = 9, 14
MOST_CURVES = 2_000
KEY = "(key) "
"""Before a legend, which is in italics too, so that it does not look like a row."""


@dataclass(frozen=True)
class _Widths:
    name: int
    bar: int  # 0 if there is no room for it
    outcome: int
    gap: int  # 0 for none


class ProblemTable:
    """The table of one snapshot at one width; rows are drawn on demand.

    rows: numbers of the problems shown, in order
    curves: drawn before, kept from one table of a comparison to the next
    """

    def __init__(
        self, snapshot: Snapshot, standing: Standings, view: View, width: int, curves: dict[object, str] | None = None
    ) -> None:
        self._curves = {} if curves is None else curves
        self.snapshot, self.standing, self.view, self.width = snapshot, standing, view, width
        self.rows = select(snapshot, standing, view.choice)
        names = [problem.name for problem in snapshot.problems]
        self._prefix = common_prefix(names)
        self._names = [clean(name[len(self._prefix) :]) for name in names]
        self._widths = self._fit()

    def head(self, height: int) -> Lines:
        """The legend, titles and totals; without totals and legend if there is little room."""
        if not self.snapshot.problems:
            return [Line(self.width).add("waiting for the first run to begin", DIM)][:height]
        lines = [self._legend(), self._titles()]
        if len(self.snapshot.arms) > 1 and len(self.snapshot.problems) > 1:
            lines.append(self._totals())
        return lines[:height] if height >= 3 else lines[1:][:height]

    def row(self, place: int) -> Line:
        """The row at that place of `rows`."""
        problem = self.rows[place]
        chosen = problem == self.view.problem
        line = Line(self.width).add("▸" if chosen else " ", STRONG)
        name = shorten(self._names[problem], self._widths.name)
        line.add(name, link(SELECTED if chosen else PLAIN, f"view('choose', {problem})"), self._widths.name)
        low, high = self._scale(problem)
        for number in range(len(self.snapshot.arms)):
            self._cells(line, number, problem, low, high)
        if len(self.snapshot.arms) == 1:
            self._alone(line, problem)
        return line

    def _fit(self) -> _Widths:
        snapshot, arms = self.snapshot, len(self.snapshot.arms)
        longest = max(map(width_of, self._names), default=1)
        name = max(min(longest, 30 if self.width >= 110 else 16), 5)
        if arms == 1:
            beside = 2 + OUTCOME + (TARGET if snapshot.has_targets else 0) + ITERATIONS + 1
            bar = max(0, min(60, self.width - 1 - name - beside))
            return _Widths(name, bar if bar >= LEAST_BAR else 0, OUTCOME, 0)
        referred = arms - 1 if snapshot.reference is not None else 0
        seeds = max((arm.seeds for arm in snapshot.arms), default=1)
        outcome = OUTCOME if seeds > 1 else 6
        for gap in (GAP, 2, 0):
            spare = self.width - 1 - name - arms * (2 + outcome) - referred * gap
            if spare >= 0:
                break
        bar = spare // arms - 1
        if spare < 0:  # many arms on a small screen: names give way
            name = max(5, name + spare)
        if bar < LEAST_BAR:
            outcome += max(0, min(spare // arms, 6))  # for the arms' names
        return _Widths(name, min(bar, MOST_BAR) if bar >= LEAST_BAR else 0, outcome, gap)

    def _arm_width(self, number: int) -> int:
        """Cells of an arm's part of a row, without the gap before it."""
        has_gap = self.snapshot.reference is not None and self.snapshot.arms[number].name != self.snapshot.reference
        bar = self._widths.bar + 1 if self._widths.bar else 0
        return bar + self._widths.outcome + (self._widths.gap if has_gap and len(self.snapshot.arms) > 1 else 0)

    def _legend(self) -> Line:
        solved = "@N solved after N iterations" if self.snapshot.has_targets else ""
        best = ("else " if solved else "") + "best fitness"
        bar = "curve: how it rose" if self._widths.bar else ""
        against = ""
        if self.snapshot.reference is not None and self._widths.gap:
            against = f"against {shorten(self.snapshot.reference, 12)} + won, - lost, = level"
            by = " (by iterations, else by fitness)" if self._widths.gap >= GAP and solved else ""
            full = " · ".join(filter(None, (solved, best, against + by, bar)))
            if width_of(full) + width_of(KEY) <= self.width:
                return Line(self.width).add(KEY, LEGEND).add(full, LEGEND)
        short = [solved.replace("solved after N iterations", "solved at N"), against, best, bar]
        line = Line(self.width).add(KEY, LEGEND)
        for part in filter(None, [solved, best, against, bar] if not against else short):
            if width_of(part) + 3 <= line.room:
                line.add(" · " if len(line.segments) > 1 else "", LEGEND).add(part, LEGEND)
        return line

    def _titles(self) -> Line:
        name = next((t for t in (clean(self._prefix), "problem") if t and width_of(t) <= self._widths.name), "name")
        line = Line(self.width).add(" ").add(name, link(DIM, f"view('sort', {NAME})"), self._widths.name)
        for number, arm in enumerate(self.snapshot.arms):
            its, cells = look(number), self._arm_width(number)
            line.gap(2)
            if len(self.snapshot.arms) == 1:
                if self._widths.bar:
                    line.add("best so far", DIM, self._widths.bar).gap()
                titled = "outcome" if self.snapshot.has_targets else "best"
                line.add(titled, link(DIM, f"view('sort', {number})"), self._widths.outcome, right=True)
                if self.snapshot.has_targets:
                    line.add("target", DIM, TARGET, right=True)
                return line.add("iterations", DIM, ITERATIONS, right=True)
            text = f"{its.mark} {shorten(arm.name, max(1, cells - 2))}"
            line.add(text, link(its.style, f"view('sort', {number})"), cells)
        return line

    def _totals(self) -> Line:
        line = Line(self.width).add(" ").add("total", DIM, self._widths.name)
        for number, arm in enumerate(self.snapshot.arms):
            cells = self._arm_width(number)
            solved = ""
            if arm.results is not None and arm.results.judged.any():
                known = arm.results.solved_at[arm.results.judged]
                solved = f"{int(np.isfinite(known).sum())}/{known.size}"
            won, lost, level = self.standing.counts(number)
            line.gap(2)
            if arm.name == self.snapshot.reference or self.snapshot.reference is None:
                line.add(solved, DIM, cells, right=self._widths.bar == 0)
                continue
            full = [f"{won} won", f"{lost} lost", f"{level} level"]
            short = [f"+{won}", f"-{lost}", f"={level}"]
            fitting = (
                pieces
                for pieces in ([solved, *full], full, [solved, *short], short)
                if width_of(" ".join(pieces)) <= cells
            )
            pieces = next(fitting, short[:2])
            room = cells
            for at, text in enumerate(pieces):
                style = GOOD if text[-3:] == "won" or text[:1] == "+" else PLAIN
                style = BAD if text[-4:] == "lost" or text[:1] == "-" else style if style is GOOD else DIM
                text = f"{' ' if at else ''}{text}"
                line.add(text, style)
                room -= width_of(text)
            line.gap(max(0, room))
        return line

    def _scale(self, problem: int) -> tuple[float, float]:
        """One scale for all arms of a row: from the lowest first fitness to the target or the best found."""
        low, high = np.inf, -np.inf
        for arm in self.snapshot.arms:
            if arm.results is not None and arm.results.best is not None:
                # rising, so that the last is the highest; fmin and fmax leave NaN out
                low = min(low, float(np.fmin.reduce(arm.results.best[problem], axis=None, initial=np.inf)))
                high = max(high, float(np.fmax.reduce(arm.results.best[problem, :, -1], initial=-np.inf)))
        if low > high:
            return 0.0, 1.0
        target = self.snapshot.problems[problem].target
        return low, high if target is None else max(high, target)

    def _cells(self, line: Line, number: int, problem: int, low: float, high: float) -> None:
        arm, its, widths = self.snapshot.arms[number], look(number), self._widths
        line.gap(2)
        results = arm.results
        if results is None or results.best is None:
            line.gap(self._arm_width(number))
            return
        opens = f"view('choose', {problem}, {number})"
        if widths.bar:
            line.add(self._curve(number, problem, low, high), link(its.style, opens)).gap()
        if problem in arm.failed:
            line.add("fault", link(BAD, opens), widths.outcome, right=True)
        else:
            text = outcome_text(self.standing, number, problem, arm.seeds)
            style = STRONG if text.startswith("@") else PLAIN
            line.add(text, link(style, opens), widths.outcome, right=True)
        if self._arm_width(number) > widths.outcome + (widths.bar + 1 if widths.bar else 0):
            text = gap_text(self.standing, number, problem)
            style = GOOD if text[:1] == "+" else BAD if text[:1] == "-" else DIM
            line.add(text if widths.gap >= GAP else text[:1], style, widths.gap, right=True)

    def _curve(self, number: int, problem: int, low: float, high: float) -> str:
        """How the arm's best fitness rose. It is only appended to, so its end identifies it."""
        results = self.snapshot.arms[number].results
        assert results is not None and results.best is not None
        known = int(np.searchsorted(results.times, results.done[problem].max())) + 1
        best = results.best[problem]
        key = (number, problem, self._widths.bar, low, high, known, best.shape, best[:, -1].tobytes())
        if key not in self._curves:
            if len(self._curves) > MOST_CURVES:
                self._curves.clear()
            self._curves[key] = sparkcurve(_mean_best(best, known), self._widths.bar, low, high)
        return self._curves[key]

    def _alone(self, line: Line, problem: int) -> None:
        arm = self.snapshot.arms[0]
        if self.snapshot.has_targets:
            target = self.snapshot.problems[problem].target
            line.add("-" if target is None else fitness(target), DIM, TARGET, right=True)
        if arm.results is not None:
            done = f"{int(arm.results.done[problem].sum()):,}/{self.snapshot.iterations * arm.seeds:,}"
            line.add(done, DIM, ITERATIONS, right=True)


def _mean_best(best: np.ndarray, known: int) -> np.ndarray:
    """(S, K) -> (K,) mean over the seeds that have any, blank beyond the first `known` times."""
    standing = ~np.isnan(best)
    count = standing.sum(axis=0)
    mean = np.where(standing, best, 0.0).sum(axis=0) / np.maximum(count, 1)
    values = np.where(count > 0, mean, np.nan)
    values[known:] = np.nan
    return values


def describe(view: View, snapshot: Snapshot, shown: int) -> str:
    """The filters and the order in a few words; "" for neither."""
    choice = view.choice
    parts: list[str] = []
    if choice.narrow:
        parts.append(f"{shown:,} of {len(snapshot.problems):,}")
    parts += [f"/{choice.search}"] if choice.search else []
    parts += ["unsolved"] if choice.unsolved else []
    parts += ["differing"] if choice.differing else []
    parts += [choice.part] if choice.part else []
    if choice.order is not None or choice.reverse:
        parts.append(f"by {_order_name(choice.order, snapshot.arms)}" + (" reversed" if choice.reverse else ""))
    return " · ".join(parts)


def _order_name(order: int | None, arms: Sequence[ArmSnapshot]) -> str:
    if order is None:
        return "number"
    if order == NAME:
        return "name"
    return arms[order].name if 0 <= order < len(arms) else "won"
