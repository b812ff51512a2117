"""Solve curves against scipy's Kaplan-Meier and by simulation; differences at an iteration; the axis of answers."""

import math

import numpy as np
import pytest
from scipy import stats as reference
from support.arm_results import arm

from evo.comparison.summary import best_curve, metric_difference, solve_curve
from evo.stats.differences import paired_difference
from evo.stats.intervals import wilson

inf, nan = math.inf, math.nan


def drawn(rng, chance, seeds, iterations):
    """Solved with this chance in each iteration: (P,) -> (P, S)."""
    at = rng.geometric(np.broadcast_to(chance[:, None], (len(chance), seeds)))
    return np.where(at > iterations, inf, at)


def test_one_finished_seed_has_wilsons_band_about_the_plain_share():
    solved_at = np.array([0, 1, 1, 4, 9, 12, inf, inf])[:, None]
    curve = solve_curve(arm(solved_at))
    shares = np.array([(solved_at <= t).mean() for t in range(1, 11)])
    assert curve.mean == pytest.approx(shares)
    low, high = wilson(shares, 8)
    assert curve.low == pytest.approx(low)
    assert curve.high == pytest.approx(high)


def test_a_search_stopped_at_its_solution_is_known_for_good():
    stopped = arm([[2], [inf], [5]], [[2], [10], [5]])
    assert stopped.horizon == 10
    assert solve_curve(stopped).mean == pytest.approx(solve_curve(arm([[2], [inf], [5]])).mean)


def test_nothing_solved_and_everything_solved_have_bands_with_a_width():
    none, every = solve_curve(arm(np.full((20, 3), inf))), solve_curve(arm(np.ones((20, 3))))
    assert (none.mean == 0).all()
    assert none.high == pytest.approx(np.full(10, wilson(0, 20, df=19)[1])), "problems are the unit"
    assert (every.mean == 1).all()
    assert every.low == pytest.approx(np.full(10, wilson(1, 20, df=19)[0]))
    assert (solve_curve(arm(np.zeros((20, 1)))).low < 1).all(), "solved by their seed answers"


def test_where_all_are_alike_the_band_knows_how_many_have_come():
    failed = solve_curve(arm([[inf]] * 20, [[0]] * 8 + [[10]] * 12))
    assert failed.high == pytest.approx(np.full(10, wilson(0, 12)[1]))
    # half are solved at 1; of ten left eight are followed, and solved at 4
    solved = solve_curve(arm([[1]] * 10 + [[4]] * 8 + [[inf]] * 2, [[1]] * 10 + [[4]] * 8 + [[2]] * 2))
    assert solved.mean[3] == 1
    assert np.isnan(solved.mean[4]), "nobody has come there"
    assert solved.low[3] == pytest.approx(wilson(1, 20)[0])
    fewer = solve_curve(arm([[1]] * 4 + [[3]] * 4 + [[4]] * 8 + [[inf]] * 6, [[4]] * 16 + [[2]] * 6))
    assert fewer.mean[3] == 1
    assert fewer.low[3] < wilson(1, 22)[0] - 0.02


def test_a_solution_read_before_its_iteration_was_counted():
    assert solve_curve(arm([[3], [inf]], [[2], [3]])).mean[2] == 0.5


def test_seeds_that_happen_to_agree_on_every_rate_leave_a_width():
    one_of_three = np.array([[1, inf, inf]] * 20)
    curve = solve_curve(arm(one_of_three))
    low, high = wilson(1 / 3, 60, df=19)
    assert (curve.low[0], curve.high[0]) == (pytest.approx(low), pytest.approx(high)), "no less than 60 searches'"


def test_searches_under_way_are_kaplan_and_meiers():
    rng = np.random.default_rng(0)
    solved, done = rng.integers(1, 25, 40), rng.integers(6, 21, 40)
    seen = solved <= done
    results = arm(np.where(seen, solved, inf)[:, None], np.where(seen, solved, done)[:, None], 20)
    curve = solve_curve(results)
    known = np.isfinite(curve.mean)
    assert known[:6].all()
    assert not known[-1]
    sample = reference.CensoredData(uncensored=solved[seen], right=done[~seen])
    theirs = reference.ecdf(sample).cdf
    times = np.arange(1, 21)[known]
    assert curve.mean[known] == pytest.approx(theirs.evaluate(times))
    # Greenwood's standard error, from scipy's interval, in Wilson's form
    bounds = theirs.confidence_interval(method="linear")
    half = (bounds.high.evaluate(times) - theirs.evaluate(times)) / 1.959964
    clear = (bounds.high.evaluate(times) < 1) & (curve.mean[known] > 0)
    rate = curve.mean[known][clear]
    low, high = wilson(rate, rate * (1 - rate) / half[clear] ** 2)
    assert clear.sum() > 5
    assert curve.low[known][clear] == pytest.approx(low, abs=1e-5)
    assert curve.high[known][clear] == pytest.approx(high, abs=1e-5)


def test_a_curve_ends_where_few_of_the_open_searches_have_come():
    curve = solve_curve(arm([[inf]] * 10, [[2]] * 4 + [[5]] * 3 + [[9]] * 3))
    assert np.isfinite(curve.mean).tolist() == [True] * 5 + [False] * 5
    assert np.isnan(curve.high[5:]).all()
    assert np.isnan(solve_curve(arm([[inf]], [[0]])).mean).all(), "nothing has begun"


def test_seeds_of_a_problem_are_not_counted_as_independent():
    one = np.where(np.random.default_rng(0).random((40, 1)) < 0.4, 1, inf)
    alone, alike = solve_curve(arm(one)), solve_curve(arm(np.repeat(one, 3, axis=1)))
    low, high = wilson(alone.mean, 39, df=39)  # the variance is estimated from the 40 problems
    assert alike.low == pytest.approx(low)
    assert alike.high == pytest.approx(high)
    mixed = solve_curve(arm(np.where(np.random.default_rng(0).random((40, 3)) < 0.4, 1, inf)))
    assert mixed.high[0] - mixed.low[0] < 0.8 * (alone.high[0] - alone.low[0])


def test_crossed_seeds_widen_the_band_where_they_differ():
    rng = np.random.default_rng(0)
    chance = np.array([0.2, 0.5, 0.8])
    results = arm(np.where(rng.random((60, 3)) < chance, 1, inf))
    nested, crossed = solve_curve(results), solve_curve(results, crossed_seeds=True)
    assert crossed.high[0] - crossed.low[0] > 2 * (nested.high[0] - nested.low[0])
    one = arm(results.solved_at[:, :1])
    assert np.isnan(solve_curve(one, crossed_seeds=True).high).all(), "one seed tells of none"


def test_median_time():
    assert solve_curve(arm(np.arange(1, 31)[:, None], iterations=30)).half() == 15
    assert solve_curve(arm([[1], [2], [3], [inf], [inf], [inf]])).half() == 3
    assert solve_curve(arm([[1], [2], [inf], [inf], [inf], [inf]])).half() is None


def test_mean_best_and_its_end():
    best = np.array([[[nan, 0.5, 0.7, nan]], [[0.1, 1.0, nan, nan]]])
    curve = best_curve(arm([[inf], [2]], [[3], [2]], 4, best=best, until_solved=True))
    assert curve.mean[:3] == pytest.approx([0.05, 0.75, 0.85])
    assert np.isnan(curve.mean[3])
    half = reference.t.ppf(0.975, 1) * np.array([0.05, 0.25, 0.15])  # two problems: the deviation of their mean
    assert curve.low[:3] == pytest.approx(curve.mean[:3] - half)
    assert curve.high[:3] == pytest.approx(curve.mean[:3] + half)
    assert np.isnan(best_curve(arm([[inf]], [[0]], 4, best=np.full((1, 1, 4), nan))).mean).all()
    with pytest.raises(ValueError, match="no best"):
        best_curve(arm([[1]]))


def test_differences_at_an_iteration():
    rng = np.random.default_rng(0)
    chance = rng.beta(0.5, 5, 50)
    a = arm(drawn(rng, np.minimum(3 * chance, 1), 3, 30), iterations=30)
    b = arm(drawn(rng, chance, 3, 30), iterations=30)
    end = metric_difference("solved", a, b)
    assert end.interval.mean == pytest.approx(solve_curve(a).mean[-1] - solve_curve(b).mean[-1])
    assert metric_difference("solved", a, b, 4).interval.mean == pytest.approx(
        solve_curve(a).mean[3] - solve_curve(b).mean[3]
    )
    area = metric_difference("area", a, b)
    assert area.interval.mean == pytest.approx((solve_curve(a).mean - solve_curve(b).mean).mean())
    assert end.shown
    wider = metric_difference("solved", a, b, crossed_seeds=True).interval
    assert wider.high - wider.low > end.interval.high - end.interval.low


def test_differences_wait_for_the_last_search():
    a, b = arm([[1], [inf]], [[9], [9]]), arm([[inf], [6]], [[4], [8]])
    assert metric_difference("solved", a, b).interval.mean == 0.5, "after 4 iterations"
    with pytest.raises(ValueError, match="reached 4"):
        metric_difference("solved", a, b, 5)
    with pytest.raises(ValueError, match="same problems"):
        metric_difference("solved", a, arm([[1]]), 1)


def test_best_difference_and_what_nothing_counts_as():
    best_a, best_b = np.array([[[0.5, 0.9]], [[nan, 0.4]]]), np.array([[[0.4, 0.4]], [[0.3, 0.3]]])
    a, b = arm([[inf], [inf]], iterations=2, best=best_a), arm([[inf], [inf]], iterations=2, best=best_b)
    assert metric_difference("best", a, b).interval.mean == pytest.approx(0.3)
    assert metric_difference("best", a, b, 1).interval.mean == pytest.approx(-0.1)
    dropped = paired_difference(best_a[:, :, 0], best_b[:, :, 0])
    assert (dropped.interval.mean, dropped.pairs) == (pytest.approx(0.1), 1)


def test_arms_whose_iterations_cost_different_numbers_of_answers_are_not_comparable():
    with pytest.raises(ValueError, match="different numbers of answers"):
        metric_difference("solved", arm([[1]], answers=1), arm([[1]], answers=3))
