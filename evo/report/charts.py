"""Charts that the page draws by itself, by Vega-Lite, so that a reader sees the value under the pointer: plain values
here, their layout in templates/charts.js. The same figures stand in the PNG files (evo.report.plots)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.comparison.load import Comparison
from evo.comparison.results import Results
from evo.comparison.survival import Curve, answer_axis, best_curve, solve_curve
from evo.report.load import RunReading
from evo.report.measures import ArmMeasures, distinct_vectors
from evo.report.plots.curves import is_number, training_metrics
from evo.report.plots.rewards import FEWEST_OBJECTIVES, drawn_places, telling_pairs
from evo.report.text import visible

POINTS = 120
"""Of a curve, at most: a pixel or two apart."""
STEPS = 60
DIGITS = 5


@dataclass(frozen=True)
class Chart:
    """name: of its element on the page; values: as JSON takes them, see templates/charts.js."""

    name: str
    title: str
    values: Mapping[str, Any]


def solve_charts(
    results: Mapping[str, Results], level: Mapping[str, Results], horizon: int, crossed_seeds: bool
) -> tuple[Chart, ...]:
    """Solve rate over iterations, over answers too where an iteration's cost differs, and mean best fitness."""
    by_answers = len({result.answers for result in results.values()}) > 1
    budgets = answer_axis(*results.values())
    solve = {
        name: solve_curve(result, crossed_seeds=crossed_seeds)
        for name, result in results.items()
        if result.judged.any()
    }
    best = {name: best_curve(level[name], crossed_seeds=crossed_seeds) for name in results}

    def over_answers(curves: Mapping[str, Curve]) -> dict[str, Curve]:
        return {name: curve.over_answers(results[name].answers, budgets) for name, curve in curves.items()}

    most = max(result.iterations for result in results.values())
    rule = {"rule": horizon} if 0 < horizon < most else {}
    charts = []
    if len(solve) == len(results):
        charts.append(_curves("solve-rate", "solve rate", "iteration", results, solve, share=True, **rule))
        if by_answers:
            curves = over_answers(solve)
            charts.append(_curves("solve-rate-answers", "solve rate", "answers a problem", results, curves, share=True))
    if by_answers:
        charts.append(_curves("best", "mean best fitness", "answers a problem", results, over_answers(best)))
    else:
        charts.append(_curves("best", "mean best fitness", "iteration", results, best, **rule))
    return tuple(charts)


def measure_charts(measures: Mapping[str, ArmMeasures], arms: Sequence[str]) -> tuple[tuple[Chart, ...], ...]:
    """best@k, none where searches stopped at their solution; diversity and distinct vectors."""
    at_k = {name: one.best_at_k for name, one in measures.items() if one.best_at_k is not None}
    first = (_curves("best-at-k", "best@k", "k, answers", arms, at_k, log=True),) if at_k else ()
    if not measures:
        return first, ()
    blocks = {name: one.by_block for name, one in measures.items()}
    growth = {name: one.growth for name, one in measures.items()}
    return first, (
        _curves("diversity", "diversity (mean L1) of each block of iterations", "iteration", arms, blocks, zero=True),
        _curves("vectors", "distinct reward vectors so far", "iteration", arms, growth, zero=True),
    )


def training_charts(readings: Mapping[str, Sequence[RunReading]]) -> tuple[Chart, ...]:
    """The trainer's figures over its steps, a line for each run."""
    charts = []
    for number, key in enumerate(training_metrics(readings)):
        lines = []
        for place, runs in enumerate(readings.values()):
            for run in runs:
                points = [(step.step, float(step.stats[key])) for step in run.steps if is_number(step.stats.get(key))]
                if points:
                    x, y = zip(*points, strict=True)
                    lines.append({"arm": place, "seed": run.run.seed, **_thinned(x, {"y": y})})
        values = {"kind": "curves", "x": "step", "y": visible(key), "lines": lines}
        charts.append(Chart(f"training-{number}", key, values))
    return tuple(charts)


def reward_charts(readings: Mapping[str, Sequence[RunReading]], row: int, number: int) -> tuple[Chart, ...]:
    """Reward vectors of one problem, all seeds, a chart for each pair of objectives; none where it has one objective,
    or no valid answer."""
    found, problem = {}, None
    for place, runs in enumerate(readings.values()):
        searches = [run.searches[row] for run in runs if run.searches]
        if searches:
            problem = searches[0].problem
            vectors, counts = (np.concatenate(part) for part in zip(*map(distinct_vectors, searches), strict=True))
            if len(vectors):
                found[place] = vectors, counts
    if problem is None or not found or len(problem.objectives) < FEWEST_OBJECTIVES:
        return ()
    every = np.concatenate([vectors for vectors, _ in found.values()])
    charts = []
    for pair, (x, y) in enumerate(telling_pairs(every)):
        points = []
        for place, (vectors, counts) in found.items():
            places, often, front = drawn_places(vectors[:, [x, y]], counts)
            points += [
                {"arm": place, "x": _short(a), "y": _short(b), "n": int(n), "front": bool(on)}
                for (a, b), n, on in zip(places, often, front, strict=True)
            ]
        names = problem.objectives[x], problem.objectives[y]
        values = {"kind": "points", "x": visible(names[0]), "y": visible(names[1]), "points": points}
        charts.append(Chart(f"rewards-{number}-{pair}", f"{names[0]} and {names[1]}", values))
    return tuple(charts)


def problem_lines(comparison: Comparison, results: Mapping[str, Results]) -> dict[str, Any]:
    """Best fitness of every search as its steps, small enough for a page: arms x problems x seeds."""
    arms = []
    for result in results.values():
        assert result.best is not None
        rows, seeds = result.best.shape[:2]
        arms.append([[_steps(result, row, column) for column in range(seeds)] for row in range(rows)])
    return {
        "iterations": comparison.iterations,
        "targets": [problem.target for problem in comparison.problems],
        "seeds": [run.seed for run in comparison.arms[0].runs],
        "lines": arms,
    }


def _steps(result: Results, row: int, column: int) -> list[list[float]]:
    """[iteration, best fitness from there on], and the last iteration at the end."""
    assert result.best is not None
    done = int(result.done[row, column])
    best = result.best[row, column, :done]
    known = np.flatnonzero(np.isfinite(best))
    if not len(known):
        return []
    rises = [int(known[0])] + [int(t) for t in known[1:] if best[t] > best[t - 1]]
    if len(rises) > STEPS:
        rises = [rises[int(i)] for i in np.unique(np.linspace(0, len(rises) - 1, STEPS).astype(int))]
    steps = [[float(t + 1), float(f"{best[t]:.{DIGITS}g}")] for t in rises]
    return [*steps, [float(done), steps[-1][1]]]


def _curves(
    name: str, title: str, x: str, arms: Sequence[str] | Mapping[str, Any], curves: Mapping[str, Curve], **options: Any
) -> Chart:
    order = list(arms)
    lines = [
        {
            "arm": order.index(arm),
            **_thinned(curve.at, {"y": curve.mean, "low": curve.low, "high": curve.high}),
        }
        for arm, curve in curves.items()
    ]
    return Chart(name, title, {"kind": "curves", "x": x, "y": title, "lines": lines, **options})


def _thinned(x: npt.ArrayLike, columns: Mapping[str, npt.ArrayLike]) -> dict[str, list[float | None]]:
    """At most POINTS places, evenly spread, both ends among them; null for what is not known."""
    at = np.asarray(x, dtype=np.float64)
    kept = np.unique(np.linspace(0, len(at) - 1, min(len(at), POINTS)).round().astype(int))
    found = {"x": [_short(value) for value in at[kept]]}
    for key, values in columns.items():
        found[key] = [_short(value) for value in np.asarray(values, dtype=np.float64)[kept]]
    return found


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
