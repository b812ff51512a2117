"""One problem alone: intervals and tests are over its seeds, and one seed has neither."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from evo.comparison.results import Results
from evo.comparison.summary import solve_curve
from evo.stats.differences import exchange_test, paired_difference, splits, verdict
from evo.stats.intervals import mean_interval


def test_a_mean_over_several_seeds_has_students_interval_over_them() -> None:
    seeds = np.array([0.2, 0.5, 0.9, 0.4])
    found = mean_interval(seeds[None])
    low, high = stats.t.interval(0.95, 3, seeds.mean(), stats.sem(seeds))
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, low, high))


@pytest.mark.parametrize("values", [[[0.7]], [[0.7, 0.7, 0.7]]])
def test_a_mean_without_spread_over_seeds_has_no_interval(values: list[list[float]]) -> None:
    found = mean_interval(values)
    assert found.mean == pytest.approx(0.7)
    assert not found.known
    assert str(found) == "+0.700"
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False)) == {"mean": found.mean, "low": None, "high": None}


def test_a_rate_over_several_seeds_has_a_width_and_under_one_seed_no_interval() -> None:
    several = mean_interval([[1.0, 1.0, 0.0, 1.0, 1.0]], rate=True)
    by_seeds = mean_interval([[1.0], [1.0], [0.0], [1.0], [1.0]], rate=True)
    assert (several.low, several.high) == pytest.approx((by_seeds.low, by_seeds.high))
    assert 0 < several.low < 0.8 < several.high < 1
    assert mean_interval([[1.0, 1.0]], rate=True).low < 1.0
    assert not mean_interval([[1.0]], rate=True).known


def _curve(solved_at: list[list[float]]):
    solved = np.array(solved_at)
    return solve_curve(Results(solved, np.full(solved.shape, 10), 10))


def test_a_solve_curve_is_over_the_seeds_of_one_problem() -> None:
    many, few = _curve([[2.0, 4.0, math.inf, 3.0]]), _curve([[2.0], [4.0], [math.inf], [3.0]])
    assert many.low == pytest.approx(few.low) and many.high == pytest.approx(few.high)
    assert many.mean[-1] == 0.75


def test_one_search_has_a_curve_without_a_band() -> None:
    curve = _curve([[7.0]])
    assert list(curve.mean) == [0.0] * 6 + [1.0] * 4
    assert np.isnan(curve.low).all() and np.isnan(curve.high).all()
    assert curve.half() == 7


def test_the_exchange_of_seeds_is_scipys_permutation_test() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        a, b = rng.normal(size=4).round(1), rng.normal(1, size=5).round(1)
        theirs = stats.permutation_test((a, b), lambda x, y: x.mean() - y.mean(), n_resamples=np.inf)
        assert exchange_test(a, b) == pytest.approx(theirs.pvalue)


def test_many_seeds_are_exchanged_at_random_with_the_same_p() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.8, size=12), rng.normal(size=12)
    assert splits(12, 12) > 1_000_000
    assert exchange_test(a, b) == pytest.approx(stats.ttest_ind(a, b).pvalue, abs=0.02)
    assert exchange_test(a, b) == exchange_test(a, b)


def test_a_difference_over_seeds_by_hand() -> None:
    a, b = np.array([0.9, 0.8, 1.0, 0.95]), np.array([0.4, 0.5, 0.45, 0.3])
    found = paired_difference(a[None], b[None])
    welch = stats.ttest_ind(a, b, equal_var=False)
    ends = welch.confidence_interval()
    assert (found.interval.low, found.interval.high) == pytest.approx((ends.low, ends.high))
    assert found.p == pytest.approx(max(welch.pvalue, 2 / math.comb(8, 4)))
    assert found.shown and found.possible and found.seeds == (4, 4)
    assert verdict("a", "b", found).text.startswith("a - b = +0.50 [")


NONE = "no difference shown (a - b = "
FEW = "p = 0.10; 3 seeds of one problem cannot show one)"
SAME = "the seeds of one problem do not differ, which leaves no interval; p = 0.0079)"
ONE = f"{NONE}+1.00; one problem under one seed has no interval)"


@pytest.mark.parametrize(
    ("a", "b", "rate", "known", "p", "shown", "begins", "ends"),
    [
        ([0.9, 0.8, 1.0], [0.1, 0.2, 0.15], False, True, 2 / math.comb(6, 3), False, NONE, FEW),
        ([1.0], [0.0], False, False, 1.0, False, ONE, ONE),
        ([1.0], [0.0], True, False, 1.0, False, ONE, ONE),
        ([0.5] * 5, [0.75] * 5, False, False, 2 / math.comb(10, 5), True, "a - b = -0.25 (", SAME),
        ([1.0] * 5, [0.0] * 5, True, True, 2 / math.comb(10, 5), True, "a - b = +1.00 [", ", 1.00]"),
    ],
)
def test_what_few_and_equal_seeds_can_show(a, b, rate, known, p, shown, begins, ends) -> None:
    found = paired_difference([a], [b], rate=rate)
    assert (found.interval.known, found.shown, found.possible) == (known, shown, shown)
    assert found.p == pytest.approx(p) and (not known or 0 <= found.interval.low < found.interval.high <= 1.0)
    text = verdict("a", "b", found).text
    assert text.startswith(begins) and text.endswith(ends), text
