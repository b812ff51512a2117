"""Arrays of one arm's searches, solve curves against scipy's Kaplan-Meier, differences, and verdicts by hand."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from support.arm_results import arm

from evo.comparison.results import Results, common_horizon, standings, worst_values
from evo.comparison.summary import best_curve, farthest, metric_difference, solve_curve, summarise, verdicts_of
from evo.stats.differences import Verdict, paired_difference
from evo.stats.intervals import wilson
from problems.objectives import Objective

inf, nan = math.inf, math.nan


def test_figures_by_hand():
    got = arm([[0, 1], [5, inf]])
    assert got.solved_by(0).tolist() == [[1, 0], [0, 0]]
    assert got.solved_by(4).tolist() == [[1, 1], [0, 0]]
    assert got.solved_by(5).tolist() == [[1, 1], [1, 0]]
    assert got.solve_areas(10).tolist() == [[1, 1], [0.6, 0]]


def test_the_area_is_the_mean_of_the_solve_rate_over_iterations():
    solved_at = np.random.default_rng(0).integers(0, 15, (20, 3))
    got = arm(np.where(solved_at > 12, inf, solved_at), iterations=12)
    for t in (1, 7, 12):
        assert got.solve_areas(t).mean() == pytest.approx(np.mean([got.solved_by(i).mean() for i in range(1, t + 1)]))


def test_the_horizon_is_the_last_open_searchs():
    running = arm([[3, inf], [inf, 9]], [[3, 6], [8, 9]])
    assert running.horizon == 6
    assert running.solved_by(6).tolist() == [[1, 0], [0, 0]]
    for t in (-1, 7):
        with pytest.raises(ValueError, match=f"iteration {t}: every search has reached 6"):
            running.solved_by(t)
    with pytest.raises(ValueError, match="iteration 0"):
        running.solve_areas(0)
    assert arm([[11.0]]).horizon == 10, "solved after the budget is not solved within it"
    assert arm([[11.0]]).solved_by(10).tolist() == [[0]]


def test_best_fitness_ends_where_a_search_is_still_going():
    best = np.array([[[nan, 0.5, 0.5, nan]], [[0.1, 1.0, nan, nan]]])
    going = arm([[inf], [2]], [[3], [2]], 4, best=best)
    assert going.best_horizon == 2
    stopping = arm([[inf], [2]], [[3], [2]], 4, best=best, until_solved=True)
    assert stopping.best_horizon == 3
    assert stopping.best_at(3).tolist() == [[0.5], [1.0]]
    assert stopping.best_at(1).tolist() == [[0.0], [0.1]]
    with pytest.raises(ValueError, match="reached 3"):
        stopping.best_at(4)
    with pytest.raises(ValueError, match="no best"):
        arm([[1]]).best_at(1)


def test_problems_without_a_target_are_out_of_solve_figures_alone():
    got = arm([[nan], [2]], [[1], [4]], best=np.ones((2, 1, 10)))
    assert got.horizon == 10
    assert got.solved_by(10).shape == (1, 1)
    assert got.best_at(1).shape == (2, 1)
    with pytest.raises(ValueError, match="none of the problems"):
        arm([[nan]], best=np.ones((1, 1, 10))).solved_by(1)


def test_a_failed_problem_and_a_late_seed_can_be_left_out():
    got = arm([[1, inf, inf], [inf, inf, inf]], [[10, 10, 0], [2, 2, 0]], best=np.ones((2, 3, 10)))
    assert got.horizon == 0
    assert got.only(seeds=[0, 1]).horizon == 2
    left = got.only(problems=np.array([True, False]), seeds=[0, 1])
    assert (left.horizon, left.best_horizon) == (10, 10)
    assert left.solved_at.tolist() == [[1, inf]]


def test_horizons_of_several_arms():
    a, b = arm([[inf]], [[4]], best=np.ones((1, 1, 10))), arm([[1]], [[9]], best=np.ones((1, 1, 10)))
    assert (common_horizon(a, b), common_horizon(a, b, best=True)) == (4, 4)
    with pytest.raises(ValueError, match="same problems"):
        common_horizon(a, arm([[1], [2]]))
    with pytest.raises(ValueError, match="target"):
        common_horizon(a, arm([[nan]]), best=True)


def test_who_solved_what():
    arms = {
        "base": arm([[1, inf], [inf, inf], [nan, nan], [inf, inf], [9, inf]]),
        "vpo": arm([[2, 2], [3, inf], [nan, nan], [inf, inf], [inf, 2]]),
    }
    found = summarise(arms, None)
    assert {name: one.only for name, one in found.arms.items()} == {"base": (), "vpo": (1,)}
    assert (found.by_all, found.by_none) == ((0, 4), (3,))
    with pytest.raises(ValueError, match="seeds"):
        summarise({"a": arm([[1]]), "b": arm([[1, 1]])}, None)


def results(solved_at, best):
    """(P, S) of each, over 10 iterations."""
    at, fitness = np.array(solved_at, float), np.array(best, float)
    return Results(at, np.full(at.shape, 10), 10, best=np.repeat(fitness[..., None], 10, axis=-1))


REFERENCE = results([[3, 5], [3, inf], [inf, inf], [nan, nan], [4, 4]], [[1, 1], [1, 0.4], [0.5, 0.5], [2, 2], [1, 1]])
OTHER = results([[2, 2], [7, 7], [inf, inf], [nan, nan], [4, inf]], [[1, 1], [1, 1], [0.4, 0.4], [2, 2], [1, 0.9]])


def test_more_seeds_then_sooner_then_fitter():
    found = standings([REFERENCE, OTHER], 0, 5)
    assert found.sign[1].tolist() == [1, 1, -1, 0, -1]
    assert found.sign[0].tolist() == [0] * 5
    assert found.gap[1, 0] == 2 and found.timed[1].tolist() == [True, False, False, False, False]
    assert found.counts(1) == (2, 2, 1)


def test_what_differs_and_what_is_solved_and_when():
    found = standings([REFERENCE, OTHER], 0, 5)
    assert found.unsolved.tolist() == [False, False, True, False, False]
    assert found.differing.tolist() == [False, True, False, False, True]
    assert found.took[1, :2].tolist() == [2, 7] and found.took[1, 2] == inf
    assert np.isnan(found.solved[:, 3]).all() and found.best[0, 3] == 2


def test_an_arm_without_results_is_not_level():
    found = standings([REFERENCE, None], 0, 5)
    assert np.isnan(found.sign[1]).all() and found.counts(1) == (0, 0, 0)
    assert np.isnan(standings([REFERENCE, OTHER], None, 5).sign).all()


@pytest.mark.parametrize(("near", "sign"), [(0.3, 0), (0.30001, 1)])
def test_fitnesses_are_level_if_only_rounding_differs(near, sign):
    assert standings([results([[inf]], [[0.1 + 0.2]]), results([[inf]], [[near]])], 0, 1).sign[1, 0] == sign


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
    sample = stats.CensoredData(uncensored=solved[seen], right=done[~seen])
    theirs = stats.ecdf(sample).cdf
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
    half = stats.t.ppf(0.975, 1) * np.array([0.05, 0.25, 0.15])  # two problems: the deviation of their mean
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


T = 10


def searches(solved_at, done=T, answers=3, best=None):
    """solved_at: (P, S), 0 standing for not solved."""
    at = np.array(solved_at, dtype=float)
    at[at == 0] = np.inf
    fitness = None if best is None else np.broadcast_to(np.array(best, float)[:, None, None], (*at.shape, T)).copy()
    return Results(at, np.full(at.shape, done), T, answers, fitness)


def test_figures_are_those_of_the_searches():
    a = searches([[1], [2], [4], [0]], best=[1, 1, 1, 0.5])
    found = summarise({"a": a}, None).arms["a"]
    assert found.solved.mean == 0.75
    assert found.area.mean == pytest.approx((10 + 9 + 7 + 0) / 40)
    assert found.median == 2
    assert found.best.mean == pytest.approx(3.5 / 4)
    assert found.only == (0, 1, 2)


def test_differences_are_arm_minus_reference_and_corrected_for_their_number():
    strong, weak = searches([[1]] * 11 + [[0]]), searches([[0]] * 11 + [[1]])
    found = summarise({"a": strong, "b": strong, "grpo": weak}, "grpo")
    assert list(found.against) == ["a", "b"] and list(found.pairs) == [("a", "grpo"), ("b", "grpo"), ("b", "a")]
    assert {gap.comparisons for metrics in found.pairs.values() for gap in metrics.values()} == {3}
    assert found.pairs["b", "a"]["solved"].interval.mean == 0
    assert found.against["a"]["solved"].interval.mean == pytest.approx(10 / 12)
    one = found.against["a"]["solved"]
    assert one.p == pytest.approx(3 * stats.binomtest(11, 12).pvalue, abs=1e-3)
    assert one.interval.low > 0
    assert summarise({"a": strong, "grpo": weak}, "grpo").against["a"]["solved"].interval.low > one.interval.low
    assert "best" not in found.against["a"]  # not asked for
    assert verdicts_of(found)[0].text.startswith("a - grpo = +0.83 [")


def test_few_problems_show_nothing():
    found = summarise({"a": searches([[1]] * 3), "grpo": searches([[0]] * 3)}, "grpo")
    assert [verdict.text for verdict in verdicts_of(found)] == [
        "no difference shown (a - grpo = +1.00 [-0.47, 1.00], p = 0.25; 3 problems cannot show one)"
    ]
    assert found.arms["grpo"].solved.high > 0.3, "none of three is not never"


def test_a_comparison_under_way_stands_where_every_search_has_come_to():
    ahead, behind = searches([[3], [0]], done=8), searches([[0], [7]], done=5)
    found = summarise({"a": ahead, "b": behind}, "b")
    assert found.horizon == 5
    assert found.arms["b"].solved.mean == 0  # at 5 it was not known yet
    assert verdicts_of(found)[0].text.endswith("cannot show one) at iteration 5 of 10")


def test_all_figures_under_way_are_of_one_iteration():
    # every search is solved, which is known for good; their best fitness is known as far as they have come
    a, b = searches([[1]] * 8, done=4, best=[0.5] * 8), searches([[2]] * 8, done=6, best=[0.7] * 8)
    found = summarise({"a": a, "b": b}, "b")
    assert found.horizon == found.best_horizon == 4
    assert found.arms["a"].solved.mean == found.arms["b"].solved.mean == 1
    assert found.against["a"]["solved"].interval.mean == 0
    assert "at iteration 4 of 10; of mean best fitness one is: a - b = -0.20" in verdicts_of(found)[0].text


def test_seeds_that_wait_do_not_hold_the_others_back():
    done = np.array([[T, 0], [T, 0]])
    a = Results(np.array([[1, np.inf], [np.inf, np.inf]]), done, T, 3)
    found = summarise({"a": a, "b": a}, "b")
    assert (found.horizon, found.seeds) == (T, 1)
    assert found.arms["a"].solved.mean == 0.5
    assert [one.solved_at.shape for one in farthest({"a": a, "b": a}).values()] == [(2, 1)] * 2
    with pytest.raises(ValueError, match="same seeds"):
        summarise({"a": a, "b": a.only(seeds=[0])}, "b")


def test_seeds_count_whether_or_not_they_are_solved():
    """One run was resumed for more iterations, and all searches of its seed are solved."""
    solved_at = np.array([[1, np.inf], [2, 3]])
    a, b = (Results(solved_at, np.array([[done, 6], [done, 6]]), T, 3) for done in (T, 6))
    found = summarise({"a": a, "b": b}, "b")
    assert (found.horizon, found.seeds) == (6, 2)
    assert found.arms["a"].solved.mean == found.arms["b"].solved.mean == 0.75


def test_a_seed_that_stopped_when_it_was_solved_leaves_no_other_behind():
    """Every search of the first seed is solved within 3 iterations; the second did 6, a third has not begun."""
    solved_at, done = np.array([[1, np.inf, np.inf], [3, 2, np.inf]]), np.array([[1, 6, 0], [3, 2, 0]])
    a = Results(solved_at, done, T, 3, until_solved=True)
    found = summarise({"a": a, "b": a}, "b")
    assert (found.horizon, found.seeds) == (6, 2)
    assert found.arms["a"].solved.mean == 0.75
    at_once = replace(a, solved_at=solved_at * [0, 1, 1], done=done * [0, 1, 1]).only(seeds=[0, 2])
    assert [one.solved_at.shape for one in farthest({"a": at_once, "b": at_once}).values()] == [(2, 1)] * 2


def test_before_anything_is_known_there_are_no_figures_and_no_verdict():
    found = summarise({"a": searches([[0], [0]], done=0), "b": searches([[0], [0]], done=0)}, "b")
    assert found.horizon == 0 and found.arms["a"].solved is None
    assert [verdict.text for verdict in verdicts_of(found)] == []


def test_without_targets_the_verdict_is_of_fitness():
    at, done = np.full((8, 1), np.nan), np.full((8, 1), T)
    arms = {name: Results(at, done, T, 3, np.full((8, 1, T), value)) for name, value in (("a", 0.9), ("b", 0.4))}
    assert verdicts_of(summarise(arms, "b")) == [Verdict("a - b = +0.50 [0.26, 0.61]", shown=True)]


def lowered(values):
    """An arm of one seed whose problems' delays end at these values, from 100 on."""
    best = np.repeat(np.array(values, float)[:, None, None], T, axis=2)
    at, objectives = np.full((len(values), 1), np.nan), (Objective("delay", True, 100.0, 100.0, True),) * len(values)
    return Results(at, np.full(at.shape, T), T, 3, best, objectives=objectives)


def test_a_difference_of_a_lowered_value_cannot_be_read_as_a_gain():
    ten = np.arange(10.0)
    found = summarise({"a": lowered(1 + ten), "b": lowered(9 + ten)}, "a")
    assert found.arms["b"].best.mean == 13.5 and found.measure.title == "delay ↓"
    (told,) = verdicts_of(found)
    assert re.fullmatch(r"b - a = \+8.00 \[\d.\d\d, \d+.\d\d\] ↓ worse", told.text) and told.shown
    (told,) = verdicts_of(summarise({"a": lowered(9 + ten), "b": lowered(1 + ten)}, "a"))
    assert told.text.startswith("b - a = -8.00 [") and told.text.endswith("] ↓ better")


def test_problems_that_measure_different_things_have_a_mean_of_rewards():
    """A delay of 50 with a scale of 100 counts 100 / 150."""
    objectives = (Objective("delay", True, 100.0, 100.0, True), Objective("fitness"))
    best = np.array([[[50.0, 50.0]], [[0.5, 0.6]]])
    arm = Results(np.full((2, 1), np.nan), np.full((2, 1), 2), 2, 1, best, objectives=objectives)
    assert arm.measure.name == "reward" and arm.mean_best == pytest.approx((100 / 150 + 0.6) / 2)
    assert summarise({"a": arm}, None).title("best") == "mean reward"


def test_a_search_without_an_answer_counts_as_the_worst_of_its_problem():
    nothing = np.full((1, 1, T), np.nan)
    for objective, values, worst in (
        (Objective("delay", True, 1.0, None, True), (3.0, 8.0), 8.0),
        (Objective("fitness"), (-4.0, -1.0), -4.0),
        (Objective("fitness"), (4.0, 1.0), 0.0),
    ):
        bests = [np.full((1, 1, T), value) for value in values]
        arms = [Results(nothing[:, :, 0], np.full((1, 1), T), T, 1, best, objectives=(objective,)) for best in bests]
        empty = replace(arms[0], best=nothing, missing=worst_values(arms))
        assert empty.best_at(T)[0, 0] == worst, objective
