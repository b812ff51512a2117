"""The best set of k vectors, against all sets."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.answer_sets import best_set


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
def test_the_best_set_against_every_set(n, d, k, seed):
    draw = np.random.default_rng(seed)
    rewards, weights = draw.integers(0, 4, (n, d)) / 3, draw.integers(1, 4, d)

    def worth(places):
        return float(rewards[list(places)].max(axis=0) @ weights / weights.sum())

    places, value = best_set(rewards, k, weights)
    best = max(worth(each) for each in itertools.combinations(range(n), min(k, n)))
    assert value == pytest.approx(worth(places)) and value >= (1 - 1 / np.e) * best
    assert k > 1 or (value == pytest.approx(best) and places == [np.argmax(np.round(rewards @ weights, 9))])
    members = set(places)
    assert all(worth(members - {one} | {other}) <= value + 1e-9 for one in members for other in range(n))
    assert len(members) == 1 or all(worth(members - {one}) < value - 1e-9 for one in members)  # none adds nothing


def test_a_greedy_choice_that_is_not_the_best_is_swapped():
    # the all-rounder comes first, but the two specialists are better without it
    assert best_set([[0.6, 0.6], [1, 0], [0, 1]], 2) == ([1, 2], 1.0)
    assert best_set([[0.5], [1.0], [1.0]], 3) == ([1], 1.0)
    for arguments in (([], 1), ([[0.5]], 0), ([[np.inf]], 1), ([[1.0, 0.0]], 1, [0.0, 0.0])):
        with pytest.raises(ValueError, match="need finite rewards"):
            best_set(*arguments)
