"""Pictures with cells: best fitness of every problem over iterations, and the archives of a few problems as grids.

The database stores the bin numbers of cells. This module computes the ranges of the bins again, as the search did, from
the candidates' measures in their order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from evo.comparison.results import Results
from evo.report.load import RunReading, SearchReading
from evo.report.measures import seed_mean
from evo.report.plot import MAP, UNKNOWN, Plot, drawn, figure, label
from islands.groups import valid_measures
from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace
from islands.store import Store

Floats = npt.NDArray[np.float64]

ROW_INCHES, TALLEST = 0.17, 13.0
NAMED_ROWS = 68
WIDEST = 240
"""Columns of pixels in an arm's map at most; of more iterations, several share a column."""
COARSE_BINS = 20


def heat_map_plot(
    shares: Mapping[str, Floats], results: Mapping[str, Results], names: Sequence[str], targets: bool
) -> Plot:
    """(P, S, T) shares of each arm as maps side by side, with the problems in one order, the easiest first."""
    means = {arm: seed_mean(cube) for arm, cube in shares.items()}
    order = _easiest_first(list(means.values()))
    count = len(order)
    height = max(1.6, min(TALLEST, ROW_INCHES * count))
    longest = max(len(label(name)) for name in names)
    wide = max(1.0, min(12.0, max(2.1 * len(means), 8.2)) / len(means))  # inches of one map
    width = 0.075 * longest + 0.9 + wide * len(means)
    made, axes = figure(width, height + 1.3, 1, len(means), sharey=True)
    colours = matplotlib.colormaps[MAP].with_extremes(bad=UNKNOWN)
    image, low = None, _lowest(list(means.values()))
    for ax, (arm, mean) in zip(axes, means.items(), strict=True):
        values = mean[order]
        step = -(-values.shape[1] // WIDEST)
        last = np.minimum(np.arange(step - 1, values.shape[1] + step - 1, step), values.shape[1] - 1)
        extent = (0.5, values.shape[1] + 0.5, count - 0.5, -0.5)
        image = ax.imshow(
            np.ma.masked_invalid(values[:, last]), aspect="auto", interpolation="nearest", vmin=low, vmax=1,
            cmap=colours, extent=extent,
        )  # fmt: skip
        _solutions(ax, results[arm], order, height / count)
        ax.set_title(label(arm, int(10 * wide)))
        ax.set_xlabel("iteration")
        ax.grid(False)
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    rows = np.arange(0, count, -(-count // NAMED_ROWS))
    axes[0].set_yticks(rows, [label(names[order[row]]) for row in rows], fontsize=7 if len(rows) == count else 6)
    if len(rows) < count:
        axes[0].set_ylabel(f"{count} problems, every {rows[1]}th named")
    assert image is not None
    length = min(height, 2.6)  # inches, and an eighth of one wide
    bar = made.colorbar(
        image, ax=axes, location="right", shrink=length / height, aspect=length * 8, anchor=(0.0, 1.0), pad=0.01,
        extend="min" if low > 0 else "neither",
    )  # fmt: skip
    bar.set_label("best fitness / target" if targets else "best fitness / best found", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    caption = (
        "Best fitness so far of every problem as a share of its target, or of the best answer of any arm if it has no "
        "target; mean over seeds. A mark: a seed solved it. Grey: not reached yet. Every arm has the same problems in "
        "the same order: by the mean over arms and iterations, the easiest first."
    )
    return drawn(made, "heat-map", "Heat maps, problems by iterations, one for each arm", caption)


def _solutions(ax: Axes, result: Results, order: npt.NDArray[np.int64], row_inches: float) -> None:
    solved = result.solved_at[order]
    rows, seeds = np.nonzero(np.isfinite(solved) & (solved <= result.iterations))
    (marks,) = ax.plot(
        np.maximum(solved[rows, seeds], 1), rows, linestyle="", marker="|", color="black", markeredgewidth=1.0,
        markersize=max(2.5, min(8.0, row_inches * 72 * 0.75)), clip_on=False,
    )  # fmt: skip
    marks.set_in_layout(False)  # without marks it has no extent, and the layout would fail


def _lowest(means: Sequence[Floats]) -> float:
    """The share at which the colours begin: round, and below almost all values, so that the values differ in colour."""
    values = np.concatenate([mean[np.isfinite(mean)] for mean in means])
    return math.floor(float(np.quantile(values, 0.03)) * 9.99) / 10 if len(values) else 0.0


def _easiest_first(means: Sequence[Floats]) -> npt.NDArray[np.int64]:
    """The order of problems by their mean over arms and iterations, the highest first."""
    values = np.concatenate(means, axis=1)
    known = np.isfinite(values)
    level = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.argsort(-level.round(9), kind="stable")


@dataclass(frozen=True, eq=False)
class ArchiveMap:
    """One search's archive over two of its measures. A cell shows its best elite over all islands and over all bins of
    the other measures.

    fitness: (bins of y, bins of x), NaN for an empty cell; of one measure y has one bin
    x_range, y_range: the outer edges of the bins
    filled: cells of the whole grid that hold an elite; elites: summed over islands
    left_out: measures that the drawing does not show
    """

    arm: str
    seed: int
    x: str
    y: str
    fitness: npt.NDArray[np.float64]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    filled: int
    elites: int
    left_out: tuple[str, ...]


def archive_maps(store: Store, readings: Mapping[str, Sequence[RunReading]], row: int) -> list[ArchiveMap]:
    """The grids of one problem, one for each arm, from its first seed. An archive that is a Pareto front is no grid;
    the chart of rewards shows it."""
    grids = []
    for arm, runs in readings.items():
        for run in runs:
            search = run.searches[row] if run.searches else None
            if search is not None and search.cells and search.problem.dimensions:
                config = PopulationConfig.model_validate(run.run.config.get("population") or {})
                if config.archive == "grid":
                    grids.append((arm, run, search, config))
                break
    # the two measures with the most bins in use over all arms, so that the arms can be compared
    used: dict[str, int] = {}
    for _, _, search, _ in grids:
        for axis, name in enumerate(search.problem.dimensions or ()):
            used[name] = used.get(name, 0) + len({cell.cell.split("-")[axis] for cell in search.cells})
    telling = sorted(used, key=lambda name: -used[name])[:2]
    return [_map(store, arm, run, search, config, telling) for arm, run, search, config in grids]


def _map(
    store: Store, arm: str, run: RunReading, search: SearchReading, config: PopulationConfig, telling: Sequence[str]
) -> ArchiveMap:
    names = search.problem.dimensions
    assert names is not None
    space = FeatureSpace(search.problem.objectives, config.bins, config.diversity_reference_size)
    space.settle(names)
    for values in valid_measures(store, search.problem.id):
        if len(values) == len(names):
            space.observe(values)
    places = np.array([[int(part) for part in cell.cell.split("-")] for cell in search.cells])  # (cells, f)
    shown = [axis for axis, name in enumerate(names) if name in telling] or [0]
    x, y = shown[-1], shown[0]
    grid = np.full((space.bins[y] if x != y else 1, space.bins[x]), np.nan)
    for cell, place in zip(search.cells, places, strict=True):
        at = search.ordinal(cell.candidate)
        if at is not None:
            spot = (place[y] if x != y else 0, place[x])
            grid[spot] = np.fmax(grid[spot], search.fitness[at])
    return ArchiveMap(
        arm,
        run.run.seed,
        names[x],
        names[y] if x != y else "",
        grid,
        (space.low[x], space.high[x]),
        (space.low[y], space.high[y]) if x != y else (0.0, 0.0),
        len({cell.cell for cell in search.cells}),
        len(search.cells),
        tuple(name for axis, name in enumerate(names) if axis not in shown),
    )


def archive_plot(maps: Sequence[ArchiveMap], problem: str, number: int) -> Plot | None:
    """The archives of one problem, one for each arm; None if there are none."""
    if not maps:
        return None
    across = min(4, len(maps))
    down = -(-len(maps) // across)
    flat = all(archive.y == "" for archive in maps)
    made, axes = figure(2.75 * across + 0.9, (1.5 if flat else 2.6) * down + 0.9, down, across)
    known = np.concatenate([archive.fitness[np.isfinite(archive.fitness)] for archive in maps])
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    low, high = (low, high) if low < high else (low - 0.5, high + 0.5)
    colours = matplotlib.colormaps[MAP].with_extremes(bad="#f4f4f4")
    image = None
    across_all, down_all = (_union([span(archive) for archive in maps]) for span in (_across, _down))
    for ax, archive in zip(axes, maps, strict=False):
        rows, columns = archive.fitness.shape
        fine = columns > COARSE_BINS or rows > COARSE_BINS
        image = ax.pcolormesh(
            np.linspace(*_across(archive), columns + 1), np.linspace(*_down(archive), rows + 1),
            np.ma.masked_invalid(archive.fitness), cmap=colours, vmin=low, vmax=high,
            edgecolors="none" if fine else "white", linewidth=0.8,
        )  # fmt: skip
        ax.set_title(f"{label(archive.arm, 18)}: {archive.filled} cells", fontsize=8.5)
        ax.set_xlabel(label(archive.x), fontsize=8)
        ax.set_xlim(across_all)
        ax.set_ylim(down_all)
        ax.tick_params(labelsize=7)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        if archive.y:
            ax.set_ylabel(label(archive.y), fontsize=8)
        else:
            ax.set_yticks([])
        ax.grid(False)
    for ax in axes[len(maps) :]:
        ax.set_visible(False)
    assert image is not None
    made.colorbar(image, ax=axes, label="fitness", shrink=0.8, aspect=25)
    left_out = sorted({name for archive in maps for name in archive.left_out})
    caption = (
        f"Archive of {problem}, seed {maps[0].seed}: each cell shows its fittest elite on any island; axes are the "
        "same in every arm. Bins divide the range of each search's values; white: outside that range."
    )
    if left_out:
        caption += f" The grid also has {', '.join(left_out)}; a cell shows the best of that column."
    size = math.prod(maps[0].fitness.shape)
    return drawn(made, f"archive-{number}", f"Grids of {size} cells coloured by fitness, one for each arm", caption)


Span = tuple[float, float]


def _across(archive: ArchiveMap) -> Span:
    return _wide(archive.x_range)


def _down(archive: ArchiveMap) -> Span:
    return _wide(archive.y_range)


def _wide(span: Span) -> Span:
    """The range; a range of one value is widened by 0.5 on both sides."""
    low, high = span
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _union(spans: Sequence[Span]) -> Span:
    return min(low for low, _ in spans), max(high for _, high in spans)
