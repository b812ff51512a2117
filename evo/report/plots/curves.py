"""Curves of the arms: solve rate and best fitness, best@k, diversity, training, and single problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from evo.comparison.results import Results
from evo.comparison.survival import Curve, answer_axis, best_curve, solve_curve
from evo.report.load import RunReading
from evo.report.measures import ArmMeasures, seed_mean
from evo.report.plots.style import FAINT, Look, Plot, drawn, figure, label, legend_above

Floats = npt.NDArray[np.float64]

MULTIPLES = 24
MULTIPLES_ACROSS = 4
MARKS = 10
TRAINING = ("reward", "fitness", "best_of_rollout", "loss", "kl", "entropy", "nll", "clipped", "grad_norm")
TRAINING_SHOWN = 6


def draw_curve(axes: Axes, curve: Curve, look: Look) -> None:
    """A line with its band; NaN ends it."""
    axes.fill_between(curve.at, curve.low, curve.high, color=look.colour, alpha=0.13, linewidth=0)
    draw_line(axes, curve.at, curve.mean, look)


def draw_line(axes: Axes, x: npt.ArrayLike, y: Floats, look: Look) -> None:
    known = np.flatnonzero(np.isfinite(y))
    marks = known[np.unique(np.linspace(0, len(known) - 1, MARKS).astype(int))] if len(known) else []
    axes.plot(
        np.asarray(x),
        y,
        color=look.colour,
        linestyle=look.line,
        marker=look.marker,
        markerfacecolor=look.face,
        markevery=[int(m) for m in marks],
    )


def solve_plot(
    results: Mapping[str, Results],
    level: Mapping[str, Results],
    looks: Mapping[str, Look],
    horizon: int,
    crossed_seeds: bool,
) -> Plot:
    """Solve rate and mean best fitness over iterations, and over answers too where an iteration's cost differs. level:
    the results of the seeds that have come far, for means, which wait for the last search."""
    with_targets = any(result.judged.any() for result in results.values())
    by_answers = len({result.answers for result in results.values()}) > 1
    panels: list[tuple[str, bool]] = [("solve rate", False)] if with_targets else []
    panels += [("solve rate", True)] if with_targets and by_answers else []
    panels += [("mean best fitness", by_answers)]
    made, axes = figure(4.7 * len(panels) if len(panels) > 1 else 6.5, 3.9, 1, len(panels))
    for (what, answers), ax in zip(panels, axes, strict=True):
        budgets = answer_axis(*results.values())
        for name, result in results.items():
            curve: Curve
            if what == "solve rate":
                curve = solve_curve(result, crossed_seeds=crossed_seeds)
            else:
                curve = best_curve(level[name], crossed_seeds=crossed_seeds)
            draw_curve(ax, curve.over_answers(result.answers, budgets) if answers else curve, looks[name])
        ax.set_title(what)
        ax.set_xlabel("answers a problem" if answers else "iteration")
        ax.set_xlim(left=0)
        if what == "solve rate":
            ax.set_ylim(-0.02, 1.02)
        most = max(result.iterations for result in results.values())
        if not answers and 0 < horizon < most:
            ax.axvline(horizon, color=FAINT, linewidth=1, linestyle=":")
            ax.annotate(
                " horizon", (horizon, 1.0), xycoords=("data", "axes fraction"), color=FAINT, va="top", fontsize=8
            )
    legend_above(made, axes[0].get_lines()[: len(results)], list(results))
    caption = (
        "Share of searches solved within so many iterations, with 95% bands over problems (Wilson's, a problem's seeds "
        "kept together); where searches are under way, the Kaplan-Meier estimate. Mean best fitness has Student's "
        "band over problems and ends where the first search does."
    )
    return drawn(
        made, "solve-rate", "Curves of solve rate and mean best fitness, one line for each arm, with bands", caption
    )


def best_at_k_plot(measures: Mapping[str, ArmMeasures], looks: Mapping[str, Look]) -> Plot | None:
    curves = {name: one.best_at_k for name, one in measures.items() if one.best_at_k is not None}
    if not curves:
        return None
    made, (ax,) = figure(6.5, 3.9)
    for name, curve in curves.items():
        draw_curve(ax, curve, looks[name])
    ax.set_xscale("log")
    ax.set_xlabel("k, answers (logarithmic)")
    ax.set_title("best@k")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    legend_above(made, ax.get_lines(), list(curves))
    caption = (
        "Expected best fitness among k answers drawn without replacement from all that a search gave up to the "
        "horizon (the unbiased estimator, exact by order statistics; failed and missing answers count 0; bands: "
        "Student's over problems). Answers of a search build on one another, so this tells how good answers are "
        "that the whole search gave, in any order; at the largest k it is the mean best."
    )
    return drawn(made, "best-at-k", "Curves of best@k, one line for each arm", caption)


def diversity_plot(measures: Mapping[str, ArmMeasures], looks: Mapping[str, Look]) -> Plot | None:
    if not measures:
        return None
    made, (left, right) = figure(9.4, 3.7, 1, 2)
    for name, one in measures.items():
        draw_curve(left, one.by_block, looks[name])
        draw_curve(right, one.growth, looks[name])
    left.set_title("diversity of the answers of a block of iterations")
    right.set_title("distinct reward vectors so far")
    left.set_ylim(bottom=0)
    right.set_ylim(bottom=0)
    for ax in (left, right):
        ax.set_xlabel("iteration")
        ax.set_xlim(left=0)
    legend_above(made, left.get_lines(), list(measures))
    caption = (
        "Left: mean L1 distance of two of the valid answers' reward vectors among those given in each block of "
        "iterations, 0 where there were fewer than two. Right: how many different reward vectors a search's valid "
        "answers have had. Means over problems with Student's bands."
    )
    return drawn(
        made, "diversity", "Curves of reward diversity and of distinct reward vectors over iterations", caption
    )


def multiples_plot(results: Mapping[str, Results], names: Sequence[str], looks: Mapping[str, Look]) -> Plot | None:
    """Best fitness over iterations, a small plot for each of at most MULTIPLES problems."""
    lines: dict[str, Floats] = {}
    for name, result in results.items():
        assert result.best is not None
        t = np.arange(1, result.iterations + 1)
        ended = result.until_solved & (result.solved_at <= result.iterations)
        lines[name] = seed_mean(np.where((t <= result.done[..., None]) | ended[..., None], result.best, np.nan))
    rows = most_telling(list(lines.values()), MULTIPLES)
    if not rows:
        return None
    across = min(MULTIPLES_ACROSS, len(rows))
    down = -(-len(rows) // across)
    made, axes = figure(2.4 * across + 0.3 if across > 1 else 5.0, 1.55 * down + 0.7, down, across, sharex=True)
    for ax, row in zip(axes, rows, strict=False):
        for name, line in lines.items():
            look = looks[name]
            x = np.arange(1, line.shape[1] + 1)
            ax.plot(x, line[row], color=look.colour, linestyle=look.line, linewidth=1.3, drawstyle="steps-post")
        ax.set_title(label(names[row]), fontsize=8, fontweight="normal")
        ax.tick_params(labelsize=7)
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(3))
    for ax in axes[len(rows) :]:
        ax.set_visible(False)
    legend_above(made, axes[0].get_lines(), list(lines))
    which = (
        "" if len(rows) == len(names) else f" The {len(rows)} of {len(names)} problems in which most happened are here."
    )
    caption = f"Best fitness so far over iterations, mean over seeds.{which} Every problem has its own chart below."
    return drawn(made, "fitness", "Best fitness over iterations, one small plot for each problem", caption)


def most_telling(lines: Sequence[Floats], most: int) -> list[int]:
    """Rows, in order, of the problems in which arms lie the farthest apart, or one arm rises the most."""
    cube = np.stack(lines)  # (arms, P, T)
    known = np.isfinite(cube)
    low, high = (np.where(known, cube, fill) for fill in (np.inf, -np.inf))
    if len(lines) > 1:
        spread = np.where(known.any(axis=0), high.max(axis=0) - low.min(axis=0), 0.0).mean(axis=1)
    else:
        spread = np.where(known.any(axis=(0, 2)), high.max(axis=(0, 2)) - low.min(axis=(0, 2)), 0.0)
    ranked = sorted(range(len(spread)), key=lambda row: (-round(float(spread[row]), 9), row))
    return sorted(row for row in ranked[:most] if known[:, row].any())


def training_plot(readings: Mapping[str, Sequence[RunReading]], looks: Mapping[str, Look]) -> Plot | None:
    """The trainer's figures over its steps, one line for each run; None where nothing was trained."""
    runs = [(arm, run) for arm, of_arm in readings.items() for run in of_arm if run.steps]
    shown = training_metrics(readings)
    if not shown:
        return None
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    made, axes = figure(3.2 * across + 0.4, 2.3 * down + 0.6, down, across)
    handles: dict[str, Line2D] = {}
    for ax, key in zip(axes, shown, strict=False):
        for arm, run in runs:
            points = [(step.step, float(step.stats[key])) for step in run.steps if is_number(step.stats.get(key))]
            if points:
                look = looks[arm]
                (line,) = ax.plot(*zip(*points, strict=True), color=look.colour, linestyle=look.line, linewidth=1.2)
                handles.setdefault(arm, line)
        ax.set_title(label(key))
        ax.set_xlabel("step")
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    legend_above(made, list(handles.values()), list(handles))
    return drawn(made, "training", "Training figures over steps", "The trainer's own figures, one line for each run.")


def training_metrics(readings: Mapping[str, Sequence[RunReading]]) -> list[str]:
    """Names of the numbers that the trainers kept, the telling ones first; TRAINING_SHOWN at most."""
    steps = [step for of_arm in readings.values() for run in of_arm for step in run.steps]
    numbers = {key for step in steps for key, value in step.stats.items() if is_number(value)}
    ranked = [key for key in TRAINING if key in numbers] + sorted(numbers - set(TRAINING))
    return ranked[:TRAINING_SHOWN]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
