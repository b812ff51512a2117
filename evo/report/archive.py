"""The archive of a few problems as grids that can be drawn: which cells are filled, how fit their elites are, and what
the bins measure. The database keeps cells by bin numbers; the ranges that the bins divide are worked out again here, as
the search did, from the measures of the candidates in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.report.load import RunReading, SearchReading
from islands.db.store import Store
from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace
from islands.queries.report import valid_measures


@dataclass(frozen=True, eq=False)
class ArchiveMap:
    """One search's archive over two of its measures; a cell shows its best elite on any island and in any bin of the
    other measures.

    fitness: (bins of y, bins of x), NaN for an empty cell; of one measure y has one bin
    x_range, y_range: what the outermost bins begin and end with
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
    """The grids of one problem, one an arm, of its first seed that has any. An archive that is a Pareto front is not
    a grid and is left out: the scatter of rewards shows it."""
    grids = []
    for arm, runs in readings.items():
        for run in runs:
            search = run.searches[row] if run.searches else None
            if search is not None and search.cells and search.problem.dimensions:
                config = PopulationConfig.model_validate(run.run.config.get("population") or {})
                if config.archive == "grid":
                    grids.append((arm, run, search, config))
                break
    # the two measures that tell the most cells apart, over all arms, so that theirs can be compared
    used: dict[str, int] = {}
    for _, _, search, _ in grids:
        for axis, name in enumerate(search.problem.dimensions or ()):
            used[name] = used.get(name, 0) + len({cell.name.split("-")[axis] for cell in search.cells})
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
    places = np.array([[int(part) for part in cell.name.split("-")] for cell in search.cells])  # (cells, f)
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
        len({cell.name for cell in search.cells}),
        len(search.cells),
        tuple(name for axis, name in enumerate(names) if axis not in shown),
    )
