"""The grids that are drawn are those that the search filled, with the ranges that it measured by."""

import numpy as np
import pytest

from evo.report.load import read_run
from evo.report.maps import archive_maps
from islands.population.config import PopulationConfig
from islands.population.population import Population
from islands.store import Store


@pytest.mark.parametrize(
    "population", [{"islands": 5}, {"feature_dimensions": ["complexity", "reward:even", "spread"]}]
)
def test_cells_and_ranges_are_those_of_the_population(search_with, digits, digits_policy, tmp_path, population):
    db = f"sqlite:///{tmp_path / 'runs.db'}"
    search_with([digits(), digits("two")], digits_policy(), db, iterations=25, population=population)
    with Store.open(db) as store:
        reading = read_run(store, store.run("run"))
        (grid,) = archive_maps(store, {"arm": [reading]}, 1)
        alive = Population(store, reading.searches[1].problem, PopulationConfig.model_validate(population))
        alive.advance(None)
        ranges = alive.stats()["dimensions"]
        cells = [cell for island in range(alive.config.islands) for cell in alive.cells(island)]
        fittest = alive.best[1]
    assert grid.filled == len(set(cells)) and grid.elites == len(cells)
    assert np.nanmax(grid.fitness) == fittest
    if "feature_dimensions" in population:
        assert {grid.x, grid.y} == {"reward:even", "spread"} and grid.left_out == ("complexity",)
    else:
        assert (grid.x, grid.y) == ("spread", "") and grid.fitness.shape[0] == 1
        assert np.isfinite(grid.fitness).sum() == grid.filled
    assert str(grid.x_range[0])[:4] in str(ranges) and str(grid.x_range[1])[:4] in str(ranges)


def test_a_front_is_no_grid(search_with, digits, digits_policy, tmp_path):
    db = f"sqlite:///{tmp_path / 'runs.db'}"
    search_with([digits()], digits_policy(), db, iterations=5, population={"archive": "pareto"})
    with Store.open(db, read_only=True) as store:
        reading = read_run(store, store.run("run"))
        assert reading.searches[0].cells and archive_maps(store, {"arm": [reading]}, 0) == []
