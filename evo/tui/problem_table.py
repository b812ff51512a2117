"""The table of problems: a row each, and in it for every arm how its best fitness rose, when it was solved, and how it
stands against the reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evo.monitor.snapshot import ArmSnapshot, Snapshot
from evo.tui.line import PLAIN, Line, Lines, clean, shorten, width_of
from evo.tui.numbers import common_prefix, fitness, signed, sparkline
from evo.tui.palette import BAD, DIM, SELECTED, STRONG, look
from evo.tui.view import View

SOLVED, DELTA = 5, 7


@dataclass(frozen=True)
class _Widths:
    name: int
    spark: int
    best: int  # 0 where there is no room for it
    deltas: bool


def visible(problem: int, problems: int, rows: int) -> range:
    """The problems on the page that the chosen one is on. Pages stay where they are, so that rows do not move under
    the eye; the last one begins earlier where it would be part empty."""
    rows = max(1, rows)
    start = max(0, min(problem // rows * rows, problems - rows))
    return range(start, min(problems, start + rows))


def draw_problem_table(snapshot: Snapshot, view: View, width: int, height: int) -> Lines:
    """`height` lines: titles, rows, none where there are no problems yet."""
    if not snapshot.problems:
        return [Line(width).add("waiting for the first run to begin", DIM)]
    names = [problem.name for problem in snapshot.problems]
    prefix = common_prefix(names)
    widths = _widths(snapshot, [clean(name[len(prefix) :]) for name in names], width)
    lines = [_titles(snapshot, prefix, widths, width)]
    for problem in visible(view.problem, len(names), height - 1):
        chosen = problem == view.problem
        line = Line(width).add("▸" if chosen else " ", STRONG)
        line.add(shorten(names[problem][len(prefix) :], widths.name), SELECTED if chosen else PLAIN, widths.name)
        low, high = _scale(snapshot, problem)
        for number in range(len(snapshot.arms)):
            _cells(line, snapshot, number, problem, widths, low, high)
        if len(snapshot.arms) == 1:
            _alone(line, snapshot, problem)
        lines.append(line)
    return lines


def _widths(snapshot: Snapshot, names: list[str], width: int) -> _Widths:
    arms = len(snapshot.arms)
    longest = max(map(width_of, names))
    for best, deltas, least in ((6, True, 10), (0, True, 8), (0, True, 4), (0, False, 3), (0, False, 0)):
        others = arms * (2 + best + SOLVED + 1) + (DELTA * (arms - 1) if deltas and arms > 1 else 0)
        others += 22 if arms == 1 else 0
        name = min(longest, 30 if width >= 110 else 16)
        spark = (width - 1 - name - others) // arms
        if spark >= least or least == 0:
            break
    if spark < 0:  # many arms on a small screen: names give way
        name, spark = max(6, name + spark * arms), 0
    most = 24 if arms > 1 else 60
    return _Widths(
        min(longest, name + max(0, spark - most) * arms), min(max(0, spark), most), best, deltas and arms > 1
    )


def _titles(snapshot: Snapshot, prefix: str, widths: _Widths, width: int) -> Line:
    line = Line(width).gap().add(_name_title(prefix, widths.name), DIM, widths.name)
    for number, arm in enumerate(snapshot.arms):
        its = look(number)
        cells = widths.spark + widths.best + SOLVED + (DELTA if _has_delta(snapshot, arm, widths) else 0)
        if len(snapshot.arms) == 1:
            line.gap(2).add("best so far", DIM, widths.spark)
            if widths.best:
                line.add("best", DIM, widths.best, right=True)
            line.gap().add("solved" if snapshot.has_targets else "", DIM, SOLVED + 1, right=True)
            if snapshot.has_targets:
                line.add("target", DIM, 8, right=True)
            return line.add("iterations", DIM, 12, right=True)
        line.gap(2).add(its.mark, its.style).gap()
        if _has_delta(snapshot, arm, widths) and cells - 2 - width_of(clean(arm.name)) >= 2:
            line.add(shorten(arm.name, cells - 4), its.style, cells - 3).add("Δ", DIM)
            line.gap()
        else:
            line.add(shorten(arm.name, cells - 1), its.style, cells - 1)
    return line


def _name_title(prefix: str, width: int) -> str:
    """What the names below have in common, where it fits."""
    return next((title for title in (clean(prefix), "problem") if title and width_of(title) <= width), "#"[:width])


def _has_delta(snapshot: Snapshot, arm: ArmSnapshot, widths: _Widths) -> bool:
    return widths.deltas and arm.name != snapshot.reference


def _scale(snapshot: Snapshot, problem: int) -> tuple[float, float]:
    """One scale for all arms of a row: from the lowest first fitness to the target or the best found."""
    values = [
        arm.results.best[problem] for arm in snapshot.arms if arm.results is not None and arm.results.best is not None
    ]
    known = [of[~np.isnan(of)] for of in values]
    low = min((float(of.min()) for of in known if of.size), default=0.0)
    high = max((float(of.max()) for of in known if of.size), default=1.0)
    target = snapshot.problems[problem].target
    return low, high if target is None else max(high, target)


def _cells(
    line: Line,
    snapshot: Snapshot,
    number: int,
    problem: int,
    widths: _Widths,
    low: float,
    high: float,
) -> None:
    arm, its = snapshot.arms[number], look(number)
    line.gap(2)
    results = arm.results
    if results is None or results.best is None:
        line.gap(widths.spark + widths.best + SOLVED + 1)
        return
    reached = int(np.searchsorted(results.times, results.done[problem].max()))
    values = _mean_best(results.best[problem], reached + 1)
    line.add(sparkline(values, widths.spark, low, high), its.style)
    if widths.best:
        known = values[~np.isnan(values)]
        line.add(fitness(float(known[-1]) if len(known) else None), width=widths.best, right=True)
    line.gap()
    if problem in arm.failed:
        line.add("fault", BAD, SOLVED, right=True)
    else:
        text = solved_text(arm, problem)
        line.add(text, DIM if text in ("·", "") or "/" in text else STRONG, SOLVED, right=True)
    if _has_delta(snapshot, arm, widths):
        line.add(delta(snapshot, arm, problem), DIM, DELTA, right=True)


def _alone(line: Line, snapshot: Snapshot, problem: int) -> None:
    arm = snapshot.arms[0]
    target = snapshot.problems[problem].target
    done = (
        "" if arm.results is None else f"{int(arm.results.done[problem].sum()):,}/{snapshot.iterations * arm.seeds:,}"
    )
    line.gap()
    if snapshot.has_targets:
        line.add("-" if target is None else fitness(target), DIM, 8, right=True)
    line.add(done, DIM, 12, right=True)


def _mean_best(best: np.ndarray, known: int) -> np.ndarray:
    """(S, K) -> (K,) mean over the seeds that have any, blank beyond the first `known` times."""
    found = ~np.isnan(best)
    count = found.sum(axis=0)
    mean = np.where(found, best, 0.0).sum(axis=0) / np.maximum(count, 1)
    values = np.where(count > 0, mean, np.nan)
    values[known:] = np.nan
    return values


def solved_text(arm: ArmSnapshot, problem: int) -> str:
    """The iteration that solved it, the median over seeds; 1/3 where only some seeds have; a dot for none."""
    assert arm.results is not None
    at = arm.results.solved_at[problem]
    if np.isnan(at).any():
        return ""
    solved = at[np.isfinite(at)]
    if not len(solved):
        return "·"
    if len(solved) < len(at):
        return f"{len(solved)}/{len(at)}"
    return f"{float(np.median(at)):.0f}"


def delta(snapshot: Snapshot, arm: ArmSnapshot, problem: int) -> str:
    """Against the reference: iterations where both have solved it under every seed ("-12it" is 12 earlier), else best
    fitness."""
    reference = next(one for one in snapshot.arms if one.name == snapshot.reference)
    if arm.results is None or reference.results is None:
        return ""
    a, b = arm.results.solved_at[problem], reference.results.solved_at[problem]
    if np.isfinite(a).all() and np.isfinite(b).all():
        gap = float(np.median(a) - np.median(b))
        return f"{gap:+.0f}it" if round(gap) else "="
    if arm.results.best is None or reference.results.best is None:
        return ""
    mine, other = arm.results.best[problem, :, -1], reference.results.best[problem, :, -1]
    if np.isnan(mine).any() or np.isnan(other).any():
        return ""
    text = signed(float(mine.mean() - other.mean()))
    return "=" if text == "0" else text
