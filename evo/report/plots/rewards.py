"""Reward space: the vectors that each arm found on one problem, two objectives at a time, and what is on the front."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D

from evo.report.load import RunReading
from evo.report.measures import distinct_vectors
from evo.report.plots.style import Look, Plot, drawn, figure, label, legend_above
from vpo.metrics import pareto_mask

Floats = npt.NDArray[np.float64]

PAIRS = 6
SHIFT = 0.014
"""Of an axis's length, that arms are drawn apart so that equal vectors of several arms can all be seen."""
FEWEST_OBJECTIVES = 2
MOST_PLACES, GRID = 4000, 100
"""Of an arm in one panel; where there are more, those in one of GRID x GRID cells are drawn as one."""


def reward_plot(
    readings: Mapping[str, Sequence[RunReading]], row: int, looks: Mapping[str, Look], number: int
) -> Plot | None:
    """None where the problem has one objective, or no valid answer."""
    found: dict[str, tuple[Floats, npt.NDArray[np.int64]]] = {}
    problem = None
    for arm, runs in readings.items():
        searches = [run.searches[row] for run in runs if run.searches]
        if searches:
            problem = searches[0].problem
            vectors, counts = (np.concatenate(part) for part in zip(*map(distinct_vectors, searches), strict=True))
            if len(vectors):
                vectors, back = np.unique(vectors, axis=0, return_inverse=True)
                found[arm] = vectors, np.bincount(back.ravel(), weights=counts).astype(np.int64)
    if not found or problem is None or len(problem.objectives) < FEWEST_OBJECTIVES:
        return None
    every = np.concatenate([vectors for vectors, _ in found.values()])
    pairs = telling_pairs(every)
    across = min(3, len(pairs))
    down = -(-len(pairs) // across)
    made, axes = figure(3.15 * across + (0.3 if across > 1 else 1.6), 2.75 * down + 0.6, down, across)
    places = {arm: place for place, arm in enumerate(found)}
    lines: dict[str, Line2D] = {}
    for ax, (x, y) in zip(axes, pairs, strict=False):
        spans = [float(np.ptp(every[:, axis])) or 1.0 for axis in (x, y)]
        for arm, (vectors, counts) in found.items():
            look, shift = looks[arm], (places[arm] - (len(found) - 1) / 2) * SHIFT
            points, often, best = drawn_places(vectors[:, [x, y]], counts)
            at = points + np.array([shift * spans[0], shift * spans[1]])
            ax.scatter(
                at[:, 0], at[:, 1], s=14 + 13 * np.log10(often), marker=look.marker, facecolors=look.face,
                edgecolors=look.colour, alpha=0.75, linewidths=0.8 if look.face == "none" else 0,
            )  # fmt: skip
            front = points[best]
            front = front[np.argsort(front[:, 0])] + np.array([shift * spans[0], shift * spans[1]])
            (line,) = ax.step(
                front[:, 0], front[:, 1], where="pre", color=look.colour, linestyle=look.line, marker=look.marker,
                markerfacecolor=look.face, linewidth=1.2,
            )  # fmt: skip
            lines.setdefault(arm, line)
        ax.set_xlabel(label(problem.objectives[x]), fontsize=8.5)
        ax.set_ylabel(label(problem.objectives[y]), fontsize=8.5)
        ax.margins(0.08)
    for ax in axes[len(pairs) :]:
        ax.set_visible(False)
    legend_above(made, list(lines.values()), list(lines))
    together = pareto_mask(np.unique(every, axis=0)).sum()
    on_front = {arm: f"{int(pareto_mask(vectors).sum())} of {len(vectors)}" for arm, (vectors, _) in found.items()}
    fronts = ", ".join(f"{arm} {count}" for arm, count in on_front.items())
    caption = (
        f"Reward vectors of the valid answers to {problem.name}, all seeds; larger marks were given more often, and "
        "equal ones of several arms are drawn a little apart. Lines: the front of each pair of objectives. Of the "
        f"distinct vectors, not dominated in all objectives: {fronts}; of all arms together {int(together)}."
    )
    if any(len(vectors) > MOST_PLACES for vectors, _ in found.values()):
        caption += f" Of more than {MOST_PLACES:,} vectors, those that a picture cannot tell apart are one mark."
    return drawn(made, f"rewards-{number}", "Reward vectors, a panel for each pair of objectives", caption)


def drawn_places(points: Floats, counts: npt.NDArray[Any]) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """The different places of points (n, 2), how often each was given, and whether it is on their front.

    A page that holds a million marks opens in no browser. So of more than MOST_PLACES, those in one cell of a grid are
    the first of them, with all their counts; those on the front are kept apart from those that are not.
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
    """At most PAIRS pairs of objectives, those that vary the most; one at least, though nothing may vary."""
    spread = vectors.std(axis=0)
    pairs = list(itertools.combinations(range(vectors.shape[1]), 2))
    ranked = sorted(pairs, key=lambda pair: (-round(float(spread[pair[0]] * spread[pair[1]]), 9), pair))
    varied = [pair for pair in ranked if spread[pair[0]] > 0 and spread[pair[1]] > 0]
    return sorted((varied or ranked[:1])[:PAIRS])
