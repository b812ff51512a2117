"""Random members against lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from islands.population.archive import ParetoArchive
from islands.population.columns import Columns
from islands.population.indexed_set import IndexedSet
from islands.population.island import Island


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=80))
def test_a_set_holds_what_was_put_in(steps):
    bag, expected = IndexedSet(), set()
    for put, item in steps:
        (bag.add if put else bag.discard)(item)
        (expected.add if put else expected.discard)(item)
        assert set(bag) == expected and len(bag) == len(expected)
        if expected:
            assert bag.draw(np.random.default_rng(0)) in expected


def test_draws_follow_fitness():
    fitness = [1.0, 0.0, 3.0, -5.0, 6.0, 90.0]
    columns = Columns(1)
    for number, value in enumerate(fitness):
        columns.append(number, bytes([number]), value, (value,), (), 0, True)
    island = Island(columns, ParetoArchive(columns, 5))
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
