"""Rates over problems with unequal numbers of trials: their intervals hold the truth, and differences agree."""

import numpy as np
import pytest

from evo.stats import mean_interval, ratio_difference, ratio_interval
from evo.stats.ratios import linearise


def test_a_rate_is_all_hits_by_all_trials_and_linearised_values_have_it_as_their_mean():
    hits, trials = np.array([[3.0, 1.0], [0.0, 5.0], [0.0, 0.0]]), np.array([[10.0, 2.0], [4.0, 9.0], [0.0, 0.0]])
    assert ratio_interval(hits, trials).mean == pytest.approx(9 / 25)
    assert linearise(hits, trials).mean() == pytest.approx(9 / 25)


def test_with_one_trial_each_it_is_the_interval_of_a_proportion():
    hits = np.array([1.0] * 7 + [0.0] * 13)
    found, known = ratio_interval(hits, np.ones(20)), mean_interval(hits, rate=True)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))


def test_problems_are_the_unit_and_not_answers():
    """Fifty answers to each of ten problems that go one way or the other altogether are ten observations."""
    hits = np.array([50.0] * 3 + [0.0] * 7)
    few, many = ratio_interval(hits / 50, np.ones(10)), ratio_interval(hits, np.full(10, 50.0))
    assert (few.low, few.high) == pytest.approx((many.low, many.high))
    assert many.high - many.low > 0.4


@pytest.mark.parametrize("spread", [0.05, 0.4])
def test_intervals_hold_the_truth_as_often_as_they_say(spread):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        trials = rng.integers(1, 200, 24).astype(float)
        rate = np.clip(0.3 + spread * (rng.random(24) - 0.5) * 1.2, 0, 1)
        found = ratio_interval(rng.binomial(trials.astype(int), rate), trials)
        held += found.low <= 0.3 <= found.high
    assert held / 400 > 0.93


def test_nothing_and_everything_have_a_width():
    none, every = ratio_interval(np.zeros(20), np.full(20, 9)), ratio_interval(np.full(20, 9), np.full(20, 9))
    assert none.low == none.mean == 0 < none.high < 0.3 and every.high == every.mean == 1 > every.low > 0.7


def test_differences_are_paired_over_the_problems_that_both_have():
    trials = np.array([[30.0], [60.0], [20.0], [40.0], [50.0], [10.0], [0.0], [90.0]] * 4)
    base = np.array([0.2, 0.7, 0.1, 0.5, 0.4, 0.9, 0.0, 0.3] * 4)[:, None] * trials
    other = trials.copy()
    other[7::8] = 0
    gap = ratio_difference(base + 0.1 * trials, trials, np.where(other > 0, base, 0), other)
    assert gap.pairs == 24 and gap.shown and gap.interval.mean == pytest.approx(0.1)
    assert ratio_difference(base, trials, base, trials).interval.mean == 0
    few = ratio_difference([9, 1], [10, 10], [1, 6], [10, 10]).interval  # Student's ends of two problems are far apart
    assert (few.low, few.high) == (-1.0, 1.0)
    assert not ratio_difference(base, trials, base, trials).shown


def test_what_has_no_trial_has_no_rate():
    with pytest.raises(ValueError, match="at least one trial"):
        ratio_interval([0, 0], [0, 0])
    with pytest.raises(ValueError, match="no problem has a trial of both"):
        ratio_difference([1, 0], [1, 0], [0, 1], [0, 1])
