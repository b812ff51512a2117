"""Lineages of the best answers, step by step, with the difference to each parent. The number of steps and the
characters of each are bounded, whatever a model wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from evo.report.difference import Piece, difference, unit_of, whole
from evo.report.load import RunReading, SearchReading
from evo.report.plot import FAINT, Plot, drawn, figure, label, look
from islands.history import CandidateReader
from islands.store import Store
from islands.types import Candidate

MOST_LINEAGES = 6
STEPS = 14
MOST_DRAWN = 3000
"""Candidates in the picture in addition to the line; of a larger search, an even sample."""


@dataclass(frozen=True)
class Step:
    """A candidate on the line. iteration counts from 1, 0 for a seed; skipped: ancestors left out before it.

    unit: of the difference: characters, words or lines
    gain: its fitness less its parent's; rewards: (objective, value, change from its parent)
    """

    candidate: int
    iteration: int
    island: int
    fitness: float
    gain: float | None
    rewards: tuple[tuple[str, float, float | None], ...]
    difference: tuple[Piece, ...]
    unit: str
    skipped: int


@dataclass(frozen=True, eq=False)
class SearchLineage:
    """The line of one search's best candidate. row: the problem's place in the comparison; rises: the number of
    candidates on the line that were better than all before them."""

    arm: str
    seed: int
    row: int
    problem: str
    target: float | None
    search: SearchReading
    line: tuple[int, ...]
    rises: int
    steps: tuple[Step, ...] = ()


def find_longest(readings: Mapping[str, Sequence[RunReading]], most: int = MOST_LINEAGES) -> list[SearchLineage]:
    """The longest line of each arm first, then of other problems, the longest first; without their steps yet."""
    lineages = [
        lineage
        for arm, runs in readings.items()
        for run in runs
        for row, search in enumerate(run.searches)
        if (lineage := _lineage_of(arm, run, row, search)) is not None
    ]
    lineages.sort(key=lambda lineage: (-lineage.rises, -len(lineage.line), lineage.row))
    chosen: list[SearchLineage] = []
    for arm in readings:
        chosen += [lineage for lineage in lineages if lineage.arm == arm][:1]
    chosen = sorted(chosen, key=lineages.index)[:most]
    for lineage in lineages:
        if len(chosen) == most:
            break
        if all(lineage.row != other.row for other in chosen):
            chosen.append(lineage)
    return sorted(chosen, key=lineages.index)


def _lineage_of(arm: str, run: RunReading, row: int, search: SearchReading) -> SearchLineage | None:
    best = search.problem.best
    if best is None or search.ordinal(best) is None:
        return None
    line = search.line(best)
    rises, highest = 0, float("-inf")
    for at in line:
        if search.valid[at] and search.fitness[at] > highest:
            rises, highest = rises + 1, float(search.fitness[at])
    return SearchLineage(arm, run.run.seed, row, search.problem.name, search.problem.target, search, tuple(line), rises)


def load_texts(store: Store, lineages: Sequence[SearchLineage]) -> list[SearchLineage]:
    """The lineages with their steps. One query reads the texts of all."""
    kept = [_places_shown(lineage) for lineage in lineages]
    wanted: dict[int, None] = {}
    for lineage, places in zip(lineages, kept, strict=True):
        for place in places:
            for at in lineage.line[max(0, place - 1) : place + 1]:
                wanted[int(lineage.search.ids[at])] = None
    texts = dict(zip(wanted, CandidateReader(store, 0).fetch(list(wanted)), strict=True)) if wanted else {}
    return [_with_steps(lineage, places, texts) for lineage, places in zip(lineages, kept, strict=True)]


def _places_shown(lineage: SearchLineage) -> list[int]:
    """The places on the line to show: all of a short line, or the ends and the steps that gained the most."""
    places = range(len(lineage.line))
    if len(lineage.line) <= STEPS:
        return list(places)
    fitness = lineage.search.fitness

    def gain(place: int) -> float:
        return float(fitness[lineage.line[place]] - fitness[lineage.line[place - 1]])

    middle = sorted(places[1:-1], key=lambda place: (-gain(place), place))[: STEPS - 2]
    return [0, *sorted(middle), len(lineage.line) - 1]


def _with_steps(lineage: SearchLineage, places: Sequence[int], texts: Mapping[int, Candidate]) -> SearchLineage:
    search, steps, before = lineage.search, [], -1
    for place in places:
        at = lineage.line[place]
        here = texts[int(search.ids[at])]
        parent = texts[int(search.ids[lineage.line[place - 1]])] if place else None
        before_text = "" if parent is None else parent.text
        unit = unit_of(search.problem.answer_format, before_text, here.text)
        moved = [None] * len(here.rewards) if parent is None else _minus(here.rewards, parent.rewards)
        steps.append(
            Step(
                here.id,
                int(search.born[at]) + 1,
                here.island,
                here.fitness,
                None if parent is None else here.fitness - parent.fitness,
                tuple(zip(search.problem.objectives, here.rewards, moved, strict=True)),
                tuple(whole(here.text, unit) if parent is None else difference(before_text, here.text, unit)),
                unit,
                place - before - 1,
            )
        )
        before = place
    return replace(lineage, steps=tuple(steps))


def _minus(a: Sequence[float], b: Sequence[float]) -> list[float | None]:
    return [x - y for x, y in zip(a, b, strict=True)]


def tree_plot(lineage: SearchLineage, place: int, number: int) -> Plot:
    """A picture of every candidate of the search under its parent, with the line to the best one marked. place: of the
    arm"""
    search = lineage.search
    shown = np.flatnonzero(search.valid)
    if len(shown) > MOST_DRAWN:
        shown = shown[np.unique(np.linspace(0, len(shown) - 1, MOST_DRAWN).astype(int))]
    x, y, its = search.born + 1, search.fitness, look(place)
    made, (ax,) = figure(7.6, 3.4)
    parents = np.searchsorted(search.ids, search.parents[shown])
    known = (search.parents[shown] >= 0) & (parents < len(search.ids))
    children, parents = shown[known], parents[known]
    edges = np.stack([np.stack([x[parents], y[parents]], axis=1), np.stack([x[children], y[children]], axis=1)], axis=1)
    ax.add_collection(LineCollection(list(edges), colors="#d9d9d9", linewidths=0.5, zorder=1))
    ax.plot(x[shown], y[shown], linestyle="", marker=".", color="#b5b5b5", markersize=3, zorder=2)
    line = np.array(lineage.line)
    ax.plot(x[line], y[line], color=its.colour, marker=its.marker, markerfacecolor=its.face, linewidth=1.8, zorder=3)
    for at in line[-1:]:
        ax.annotate(
            f"{y[at]:.4g}", (x[at], y[at]), textcoords="offset points", xytext=(6, -3), fontsize=8, color=its.colour
        )
    if lineage.target is not None:
        ax.axhline(lineage.target, color=FAINT, linewidth=1, linestyle=":")
        # the left edge of the axis, not iteration 0
        at_edge = ax.get_yaxis_transform()
        ax.text(0.01, lineage.target, "target", color=FAINT, fontsize=8, va="bottom", transform=at_edge)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration")
    ax.set_ylabel("fitness")
    ax.set_title(f"{label(lineage.problem)}, {label(lineage.arm)}, seed {lineage.seed}")
    ax.margins(x=0.04, y=0.12)
    caption = (
        f"Every valid candidate of this search under its parent (grey), and the line of {len(line)} that leads to the "
        "best one. Each step is below, with the difference to its parent."
    )
    return drawn(made, f"lineage-{number}", "Candidates under their parents, the best one's line marked", caption)
