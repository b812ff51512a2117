"""The report's charts: solve rate and best fitness, best@k, diversity, training, rewards, single problems. Each is
computed once, as a Chart (evo.chart). evo.report.plot draws it as a PNG file, and the page draws most of them by
Vega-Lite (evo.chart.chart_values, templates/charts.js), so that a reader sees the value under the pointer."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.chart import (
    DIGITS,
    MEAN_BEST,
    SOLVE_RATE,
    Axis,
    Chart,
    Marks,
    Series,
    even_sample,
    point_places,
    series_of,
    short_number,
)
from evo.comparison.load import Comparison
from evo.comparison.results import Results
from evo.comparison.survival import Curve, answer_axis, best_curve, solve_curve
from evo.encoding import visible
from evo.report.load import RunReading
from evo.report.measures import ArmMeasures, best_so_far, distinct_vectors, seed_mean
from evo.report.plot import Plot, plot_charts
from evo.training.metrics import IN_SEARCH, SHOWN_IN_CHARTS
from islands.types import ProblemRecord, sum_totals
from vpo.metrics import pareto_mask

Floats = npt.NDArray[np.float64]

STEPS = 60
"""Points at most of a line of steps on the page."""
MULTIPLES, MULTIPLES_ACROSS = 24, 4
PAIRS = 6
FEWEST_OBJECTIVES = 2
MOST_PLACES, GRID = 4000, 100
"""Marks of an arm in a picture at most; of more, those in the same of GRID x GRID cells are drawn as one."""
MOST_VECTORS = 1500
"""Reward vectors of an arm on the page at most, and those on fronts."""


def solve_charts(
    results: Mapping[str, Results], level: Mapping[str, Results], horizon: int, crossed_seeds: bool
) -> tuple[list[Chart], list[Chart]]:
    """Solve rate, if there are targets, and mean best fitness: over iterations, and over answers if an iteration's cost
    differs. level: the results of the seeds that have come the farthest, for means, which need every search."""
    arms = list(results)
    budgets = answer_axis(*results.values())
    by_answers = len({result.answers for result in results.values()}) > 1
    most = max(result.iterations for result in results.values())
    rule = horizon if 0 < horizon < most else None
    over_iterations, over_answers = Axis("iteration", zero=True), Axis("answers a problem", zero=True)

    def paid(curves: Mapping[str, Curve]) -> dict[str, Curve]:
        return {name: curve.over_answers(results[name].answers, budgets) for name, curve in curves.items()}

    by_iteration, by_answer = [], []
    if any(result.judged.any() for result in results.values()):
        solved = {name: solve_curve(result, crossed_seeds=crossed_seeds) for name, result in results.items()}
        share = Axis(SOLVE_RATE, share=True)
        by_iteration.append(Chart("solve-rate", SOLVE_RATE, over_iterations, share, series_of(arms, solved), rule=rule))
        series = series_of(arms, paid(solved))
        by_answer.append(Chart("solve-rate-answers", SOLVE_RATE, over_answers, share, series))
    best: Mapping[str, Curve] = {name: best_curve(level[name], crossed_seeds=crossed_seeds) for name in results}
    by_iteration.append(Chart("best", MEAN_BEST, over_iterations, Axis(MEAN_BEST), series_of(arms, best), rule=rule))
    by_answer.append(Chart("best", MEAN_BEST, over_answers, Axis(MEAN_BEST), series_of(arms, paid(best))))
    return by_iteration, by_answer if by_answers else []


def solve_plot(results: Mapping[str, Results], level: Mapping[str, Results], horizon: int, crossed_seeds: bool) -> Plot:
    """The charts of solve_charts as a picture: best fitness over answers only, if an iteration's cost differs."""
    by_iteration, by_answer = solve_charts(results, level, horizon, crossed_seeds)
    charts = [*by_iteration[:-1], *by_answer] if by_answer else by_iteration
    caption = "Mean best fitness has Student's 95% band over problems and ends when the first search does."
    if len(charts) > 1:
        caption = (
            "Solve rate: the share of searches solved by each iteration, with 95% bands over problems (Wilson's, a "
            "problem's seeds kept together); while searches are running, the Kaplan-Meier estimate. " + caption
        )
    alt = "Curves of solve rate and mean best fitness, one line for each arm, with bands"
    plot = plot_charts(("solve-rate", alt, caption), charts, (row_width(charts), 3.9), len(charts))
    # the page draws these over any budget (spending), so it needs them over iterations only
    return replace(plot, charts=tuple(by_iteration))


def row_width(charts: Sequence[Chart]) -> float:
    """Inches of these charts in one row."""
    return 4.7 * len(charts) if len(charts) > 1 else 6.5


def spending(comparison: Comparison, readings: Mapping[str, Sequence[RunReading]]) -> dict[str, list[list[float]]]:
    """The budgets over which the page draws curves: the mean of what an arm's searches have spent after each iteration.

    Returns unit -> for each arm the values after POINTS iterations at most, evenly spaced, from 0 to the last one
    (`iterations`). Tokens, cost and wall time are exact in all; they are shared out over iterations by the stored token
    ids and by the seconds of sampling and scoring. A unit that no arm has spent is left out.
    """
    axes: dict[str, list[list[float]]] = {unit: [] for unit in ("iterations", "answers", "tokens", "cost", "seconds")}
    for arm, runs in zip(comparison.arms, readings.values(), strict=True):
        costs = [run.costs for run in runs if run.costs is not None]
        length = max((len(cost.groups) for cost in costs), default=0)
        if not length:  # the arm waits for its turn
            for columns in axes.values():
                columns.append([0.0])
            continue
        groups, token_bytes, seconds = (
            sum((np.pad(column, (0, length - len(column))) for column in columns), np.zeros(length))
            for columns in zip(*((cost.groups, cost.tokens, cost.seconds) for cost in costs), strict=True)
        )
        totals = sum_totals(run.totals for run in runs)
        ended = [float(run.run.summary["seconds"]) for run in runs if is_number(run.run.summary.get("seconds"))]
        wall = sum(ended) if len(ended) == len(costs) else float(seconds.sum())  # the latter while runs are searching
        spent = {
            "tokens": (token_bytes, float(totals.tokens)),
            "cost": (token_bytes, totals.cost),
            "seconds": (seconds, wall),
        }
        kept = point_places(length + 1)
        axes["iterations"].append([float(at) for at in kept])
        axes["answers"].append([float(at * arm.answers) for at in kept])
        for unit, (weight, whole) in spent.items():
            weight = weight if weight.any() else groups
            by_search = np.concatenate([[0.0], np.cumsum(weight / np.maximum(groups, 1))])
            axes[unit].append([float(f"{value:.{DIGITS}g}") for value in (by_search * whole / weight.sum())[kept]])
    return {unit: columns for unit, columns in axes.items() if any(column[-1] > 0 for column in columns)}


def best_at_k_plot(measures: Mapping[str, ArmMeasures]) -> Plot | None:
    """None if searches stopped at their solution."""
    curves = {name: measure.best_at_k for name, measure in measures.items() if measure.best_at_k is not None}
    if not curves:
        return None
    series = series_of(list(measures), curves)
    chart = Chart("best-at-k", "best@k", Axis("k, answers", log=True), Axis("best@k"), series)
    caption = (
        "Expected best fitness among k answers drawn without replacement from all answers of a search up to the "
        "horizon (the unbiased estimator, exact by order statistics; failed and missing answers count 0; bands: "
        "Student's over problems). Answers of a search build on one another, so this measures the "
        "quality of all answers of a search in any order; at the largest k it is the mean best."
    )
    alt = "Curves of best@k, one line for each arm"
    return plot_charts(("best-at-k", alt, caption), [chart], (6.5, 3.9), 1)


def diversity_plot(measures: Mapping[str, ArmMeasures]) -> Plot | None:
    """Diversity of each block of iterations, and distinct reward vectors so far."""
    if not measures:
        return None
    blocks = {name: measure.by_block for name, measure in measures.items()}
    shown = (
        ("diversity", "answer diversity (mean L1) of each block of iterations", blocks),
        ("vectors", "distinct reward vectors so far", {name: measure.growth for name, measure in measures.items()}),
    )
    charts = [
        Chart(name, title, Axis("iteration", zero=True), Axis(title, zero=True), series_of(list(measures), curves))
        for name, title, curves in shown
    ]
    caption = (
        "Left: mean L1 distance of two of the valid answers' reward vectors among those given in each block of "
        "iterations, 0 for fewer than two. Right: the number of distinct reward vectors among a search's valid "
        "answers so far. Means over problems with Student's bands."
    )
    alt = "Curves of reward diversity and of distinct reward vectors over iterations"
    return plot_charts(("diversity", alt, caption), charts, (9.4, 3.7), 2)


def training_plot(readings: Mapping[str, Sequence[RunReading]]) -> Plot | None:
    """The trainer's metrics over its steps, a line for each run; None if nothing was trained."""
    charts = []
    for number, key in enumerate(training_metrics(readings)):
        series = []
        for place, (arm, runs) in enumerate(readings.items()):
            for run in runs:
                points = [(step.step, float(step.stats[key])) for step in run.steps if is_number(step.stats.get(key))]
                if points:
                    x, y = np.array(points, dtype=np.float64).T
                    series.append(Series(place, arm, x, y, seed=run.run.seed))
        charts.append(Chart(f"training-{number}", key, Axis("step"), Axis(key), tuple(series)))
    if not charts:
        return None
    across, down = _grid(len(charts), 3)
    plot = ("training", "Training metrics over steps", "The trainer's metrics, one line for each run.")
    return plot_charts(plot, charts, (3.2 * across + 0.4, 2.3 * down + 0.6), across)


def training_metrics(readings: Mapping[str, Sequence[RunReading]]) -> list[str]:
    """Names of the trainers' metrics, the most important first; SHOWN_IN_CHARTS at most."""
    steps = [step for of_arm in readings.values() for run in of_arm for step in run.steps]
    numbers = {key for step in steps for key, value in step.stats.items() if is_number(value)}
    ranked = [key for key in IN_SEARCH if key in numbers] + sorted(numbers - set(IN_SEARCH))
    return ranked[:SHOWN_IN_CHARTS]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def fitness_plot(results: Mapping[str, Results], names: Sequence[str]) -> Plot | None:
    """Best fitness over iterations, a small chart for each of at most MULTIPLES problems."""
    lines = {name: seed_mean(best_so_far(result)) for name, result in results.items()}
    rows = most_telling(list(lines.values()), MULTIPLES)
    if not rows:
        return None
    charts = []
    for row in rows:
        series = tuple(
            Series(place, arm, np.arange(1.0, line.shape[1] + 1), line[row])
            for place, (arm, line) in enumerate(lines.items())
        )
        charts.append(Chart(f"fitness-{row}", names[row], Axis("iteration"), Axis("fitness"), series, steps=True))
    across, down = _grid(len(rows), MULTIPLES_ACROSS)
    which = (
        ""
        if len(rows) == len(names)
        else f" These are the {len(rows)} of {len(names)} problems with the largest differences."
    )
    caption = f"Best fitness so far over iterations, mean over seeds.{which} Every problem has its own chart below."
    plot = ("fitness", "Best fitness over iterations, one small plot for each problem", caption)
    size = (2.4 * across + 0.3 if across > 1 else 5.0, 1.55 * down + 0.7)
    return plot_charts(plot, charts, size, across, small=True)


def most_telling(lines: Sequence[Floats], most: int) -> list[int]:
    """Rows, in order, of the problems in which arms differ the most, or a single arm rises the most."""
    cube = np.stack(lines)  # (arms, P, T)
    known = np.isfinite(cube)
    low, high = (np.where(known, cube, fill) for fill in (np.inf, -np.inf))
    if len(lines) > 1:
        spread = np.where(known.any(axis=0), high.max(axis=0) - low.min(axis=0), 0.0).mean(axis=1)
    else:
        spread = np.where(known.any(axis=(0, 2)), high.max(axis=(0, 2)) - low.min(axis=(0, 2)), 0.0)
    ranked = sorted(range(len(spread)), key=lambda row: (-round(float(spread[row]), 9), row))
    return sorted(row for row in ranked[:most] if known[:, row].any())


def reward_plot(readings: Mapping[str, Sequence[RunReading]], row: int, number: int) -> Plot | None:
    """Reward vectors of one problem, all seeds, a chart for each pair of objectives; None if it has one objective
    or no valid answer."""
    problem, vectors_of = _vectors(readings, row)
    if problem is None or not vectors_of or len(problem.objectives) < FEWEST_OBJECTIVES:
        return None
    arms = list(readings)
    distinct = {place: np.unique(vectors, axis=0) for place, (vectors, _) in vectors_of.items()}
    every = np.concatenate(list(distinct.values()))
    charts = []
    for pair, (x, y) in enumerate(sorted(telling_pairs(every))):
        marks = []
        for place, (vectors, counts) in vectors_of.items():
            at, often, front = drawn_places(vectors[:, [x, y]], counts)
            marks.append(Marks(place, arms[place], at[:, 0], at[:, 1], often, front))
        first, second = problem.objectives[x], problem.objectives[y]
        name, title = f"rewards-{number}-{pair}", f"{first} and {second}"
        charts.append(Chart(name, title, Axis(first), Axis(second), marks=tuple(marks)))
    across, down = _grid(len(charts), 3)
    together = int(pareto_mask(np.unique(every, axis=0)).sum())
    fronts = ", ".join(
        f"{arms[place]} {int(pareto_mask(vectors).sum())} of {len(vectors)}" for place, vectors in distinct.items()
    )
    caption = (
        f"Reward vectors of the valid answers to {problem.name}, all seeds; larger marks were sampled more often, and "
        "equal ones of several arms are drawn a little apart. Lines: the front of the two objectives. Distinct vectors "
        f"that no other dominates in all objectives: {fronts}; {together} of all arms together."
    )
    if any(len(vectors) > MOST_VECTORS for vectors, _ in vectors_of.values()):
        caption += (
            f" If an arm has more than {MOST_VECTORS:,} vectors, the chart shows those on a front of two objectives "
            "and an even sample of the others."
        )
    plot = (f"rewards-{number}", "Reward vectors, a panel for each pair of objectives", caption)
    size = (3.15 * across + (0.3 if across > 1 else 1.6), 2.75 * down + 0.6)
    return replace(plot_charts(plot, charts, size, across), charts=())


def reward_values(readings: Mapping[str, Sequence[RunReading]], row: int) -> dict[str, Any]:
    """The same vectors as JSON for templates/charts.js, which draws any two objectives.

    pair: the two that it shows first; marks: for each arm [its place, rows of (answers, reward, ...)]
    """
    problem, vectors_of = _vectors(readings, row)
    assert problem is not None
    pairs = list(itertools.combinations(range(len(problem.objectives)), 2))
    marks = []
    for place, (vectors, counts) in vectors_of.items():
        kept = np.arange(len(vectors))
        if len(kept) > MOST_VECTORS:
            on_front = np.any([pareto_mask(vectors[:, pair]) for pair in pairs], axis=0)
            kept = np.union1d(even_sample(kept[on_front], MOST_VECTORS), even_sample(kept, MOST_VECTORS))
        rows = [[int(counts[at]), *map(short_number, vectors[at])] for at in kept]
        marks.append([place, rows])
    every = np.unique(np.concatenate([vectors for vectors, _ in vectors_of.values()]), axis=0)
    names = [visible(name) for name in problem.objectives]
    return {"kind": "vectors", "objectives": names, "pair": telling_pairs(every)[0], "marks": marks}


def _vectors(
    readings: Mapping[str, Sequence[RunReading]], row: int
) -> tuple[ProblemRecord | None, dict[int, tuple[Floats, npt.NDArray[np.int64]]]]:
    """The problem, None before any search of it began, and each arm's distinct reward vectors with their numbers of
    answers."""
    vectors_of: dict[int, tuple[Floats, npt.NDArray[np.int64]]] = {}
    problem = None
    for place, runs in enumerate(readings.values()):
        searches = [run.searches[row] for run in runs if run.searches]
        if searches:
            problem = searches[0].problem
            vectors, counts = (np.concatenate(part) for part in zip(*map(distinct_vectors, searches), strict=True))
            if len(vectors):
                vectors_of[place] = vectors, counts
    return problem, vectors_of


def drawn_places(points: Floats, counts: npt.NDArray[Any]) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """The different places of points (n, 2), how often each was given, and whether it is on their front.

    No browser opens a page of a million marks. If there are more than MOST_PLACES, the points of a grid cell are merged
    into the first, with the sum of their counts; points on the front are merged separately.
    """
    places, back = np.unique(points, axis=0, return_inverse=True)
    often = np.bincount(back.ravel(), weights=counts).astype(np.float64)
    front = pareto_mask(places)
    if len(places) <= MOST_PLACES:
        return places, often, front
    low, span = places.min(axis=0), np.ptp(places, axis=0)
    cells = ((places - low) / np.where(span > 0, span, 1.0) * (GRID - 1)).astype(np.int64)
    _, first, of_cell = np.unique(
        (cells[:, 0] * GRID + cells[:, 1]) * 2 + front, return_index=True, return_inverse=True
    )
    return places[first], np.bincount(of_cell.ravel(), weights=often).astype(np.float64), front[first]


def telling_pairs(vectors: Floats) -> list[tuple[int, int]]:
    """At most PAIRS pairs of objectives, those that vary the most first; at least one, even if nothing varies."""
    spread = vectors.std(axis=0).round(9)  # equal values differ by rounding
    pairs = list(itertools.combinations(range(vectors.shape[1]), 2))
    ranked = sorted(pairs, key=lambda pair: (-round(float(spread[pair[0]] * spread[pair[1]]), 9), pair))
    varied = [pair for pair in ranked if spread[pair[0]] > 0 and spread[pair[1]] > 0]
    return (varied or ranked[:1])[:PAIRS]


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
    """[iteration, best fitness from then on] for each rise, and the last iteration at the end."""
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


def _grid(count: int, most_across: int) -> tuple[int, int]:
    """The numbers of columns and rows of charts."""
    across = min(most_across, count)
    return across, -(-count // across)
