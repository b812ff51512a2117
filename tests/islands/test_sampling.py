"""Bags and wheels against lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from islands.population.weighted_sampler import LEAST_WEIGHT, MOST_WEIGHT, IndexedSet, WeightedSampler

operations = st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.floats(-10, 1e4)), max_size=80)


@settings(max_examples=150, deadline=None)
@given(operations)
def test_a_wheel_holds_what_was_put_in(steps):
    wheel, bag, expected = WeightedSampler(), IndexedSet(), {}
    rng = np.random.default_rng(0)
    for put, item, weight in steps:
        if put and item not in expected:
            wheel.add(item, weight)
            bag.add(item)
            expected[item] = min(max(weight, LEAST_WEIGHT), MOST_WEIGHT)
        elif put:
            with pytest.raises(KeyError):
                wheel.add(item, weight)
            bag.add(item)
        else:
            wheel.discard(item)
            bag.discard(item)
            expected.pop(item, None)
        assert set(wheel) == set(bag) == set(expected) and len(wheel) == len(bag) == len(expected)
        assert wheel.items == bag.items and all(item in wheel and item in bag for item in expected)
        for node in range(1, len(wheel) + 1):  # each node of the tree sums its own range
            span = wheel.items[node - (node & -node) : node]
            assert wheel._tree[node] == pytest.approx(sum(expected[i] for i in span), rel=1e-9, abs=1e-6)
        if expected:
            assert wheel.draw(rng) in expected and wheel.draw_weighted(rng) in expected and bag.draw(rng) in expected


def test_draws_follow_the_weights():
    wheel = WeightedSampler()
    weights = {"a": 1.0, "b": 0.0, "c": 3.0, "d": -5.0, "e": 6.0}
    for item, weight in weights.items():
        wheel.add(item, weight)
    wheel.add("f", 90.0)
    wheel.discard("f")
    rng = np.random.default_rng(1)
    drawn = [wheel.draw_weighted(rng) for _ in range(20_000)]
    shares = {item: drawn.count(item) / 20_000 for item in weights}
    assert shares["a"] == pytest.approx(0.1, abs=0.01)
    assert shares["c"] == pytest.approx(0.3, abs=0.015)
    assert shares["e"] == pytest.approx(0.6, abs=0.015)
    uniform = [wheel.draw(rng) for _ in range(20_000)]
    assert all(uniform.count(item) / 20_000 == pytest.approx(0.2, abs=0.015) for item in weights)


def test_nothing_can_be_drawn_from_nothing():
    for empty in (IndexedSet(), WeightedSampler()):
        with pytest.raises(IndexError):
            empty.draw(np.random.default_rng(0))
