import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpo.metrics import best_at_k, best_of_scalarized, diversity, pareto_fraction, pareto_mask, pass_at_k

small = st.lists(st.floats(0, 1, width=16), min_size=1, max_size=7)


@given(small, st.data())
def test_best_at_k_is_the_mean_over_all_subsets(values, data):
    k = data.draw(st.integers(1, len(values)))
    brute = np.mean([max(subset) for subset in itertools.combinations(values, k)])
    assert best_at_k(values, k) == pytest.approx(brute)


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    answers = [1] * c + [0] * (n - c)
    brute = np.mean([any(subset) for subset in itertools.combinations(answers, k)])
    assert pass_at_k(n, c, k) == pytest.approx(brute)
    assert pass_at_k(n, c, k) == pytest.approx(best_at_k(answers, k))


@pytest.mark.parametrize("arguments", [(3, 1, 4), (3, 4, 1), (3, -1, 1), (0, 0, 0)])
def test_impossible_counts_are_refused(arguments):
    with pytest.raises(ValueError):
        pass_at_k(*arguments)


@given(st.lists(st.tuples(st.floats(0, 1, width=16), st.floats(0, 1, width=16)), min_size=2, max_size=8))
def test_diversity_is_the_mean_pairwise_l1(vectors):
    brute = np.mean([np.abs(np.subtract(a, b)).sum() for a, b in itertools.combinations(vectors, 2)])
    assert diversity(vectors) == pytest.approx(brute, abs=1e-9)


def test_failed_answers_inflate_diversity():
    answers = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    assert diversity(answers[:2]) == 0
    assert diversity(answers) == pytest.approx(4 / 3)
    assert diversity(answers[:1]) == 0


def test_pareto_by_hand():
    vectors = [[1, 0], [0, 1], [0.4, 0.4], [0.5, 0.5], [0.5, 0.5], [0, 0]]
    assert pareto_mask(vectors).tolist() == [True, True, False, True, True, False]
    assert pareto_fraction(vectors) == pytest.approx(4 / 6)


def test_best_of_scalarized():
    weights = [[1.0, 0.0], [0.0, 1.0]]
    assert best_of_scalarized([[1, 0], [0, 0.5]], weights) == pytest.approx(0.75)
    assert best_of_scalarized(np.zeros((0, 2)), weights) == 0


@pytest.mark.parametrize("size", [0, 1, 7, 100])
@pytest.mark.parametrize("objectives", [1, 2, 4])
def test_the_front_is_what_comparing_all_pairs_finds(size, objectives):
    rng = np.random.default_rng(size)
    for vectors in (rng.random((size, objectives)), rng.integers(0, 4, (size, objectives)).astype(float)):
        dominated = [any((other >= one).all() and (other > one).any() for other in vectors) for one in vectors]
        assert pareto_mask(vectors).tolist() == [not one for one in dominated]


def test_best_at_k_of_failures_without_a_value():
    assert best_at_k([-np.inf, 0.2, 0.6], 2) == pytest.approx((0.2 + 0.6 + 0.6) / 3)
    assert best_at_k([-np.inf, -np.inf, 0.6], 2) == -np.inf, "two of the three may both be failures"
    assert best_at_k([-np.inf, 0.6], 2) == 0.6
    with pytest.raises(ValueError, match="NaN"):
        best_at_k([np.nan, 0.6], 1)
