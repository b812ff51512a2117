"""Random members against lists."""

from __future__ import annotations

import numpy as np
import pytest

from islands.population.archive import GridArchive
from islands.population.columns import Columns
from islands.population.features import FeatureSpace
from islands.population.island import Island


def test_draws_follow_fitness():
    fitness = [1.0, 0.0, 3.0, -5.0, 6.0, 90.0]
    columns = Columns(1)
    for number, value in enumerate(fitness):
        columns.append(number, bytes([number]), value, (value,), (), 0, True)
    island = Island(columns, GridArchive(columns, FeatureSpace(("score",), lambda names: (1,) * len(names), 1)))
    with pytest.raises(IndexError):
        island.members.draw(np.random.default_rng(0))
    for number in range(len(fitness)):
        island.join(number)
    island.leave(5)
    rng = np.random.default_rng(1)
    drawn = [island.draw_by_fitness(rng) for _ in range(20_000)]
    assert [drawn.count(number) / 20_000 for number in range(6)] == pytest.approx([0.1, 0, 0.3, 0, 0.6, 0], abs=0.015)
    uniform = [island.members.draw(rng) for _ in range(20_000)]
    assert all(uniform.count(number) / 20_000 == pytest.approx(0.2, abs=0.015) for number in range(5))
