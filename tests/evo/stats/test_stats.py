"""Intervals and tests against scipy and closed forms, of several problems and of one, and what they promise by
simulation; bench/coverage.py has more scenarios, and runs more."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats
from support.rows import yaml_rows

from bench.coverage import PROBLEMS, SCENARIOS, better, measure, rates
from evo.comparison.results import Results
from evo.comparison.summary import describe_detectable, solve_curve
from evo.stats.differences import (
    EXACT_PAIRS,
    Difference,
    detectable,
    exchange_test,
    fewest_pairs,
    paired_difference,
    sign_flips,
    splits,
    verdict,
)
from evo.stats.intervals import Interval, mean_band, mean_interval, wilson

TRIALS = 300


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_is_scipys(level):
    pairs = [(k, n) for n in (1, 7, 60) for k in range(n + 1)]
    low, high = wilson([k / n for k, n in pairs], [n for _, n in pairs], level)
    for i, (k, n) in enumerate(pairs):
        theirs = stats.binomtest(k, n).proportion_ci(level, method="wilson")
        assert (low[i], high[i]) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert low[0] == 0
    assert high[1] == 1


def test_wilson_takes_sizes_that_are_not_whole_and_lets_the_unknown_through():
    narrow, wide, few = wilson(0.3, 20.5), wilson(0.3, 10.5), wilson(0.3, 10.5, df=3)
    assert few[0] < wide[0] < narrow[0] < 0.3 < narrow[1] < wide[1]
    assert np.isnan(wilson(np.nan, 5)).all()


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        *((wilson, arguments, "Wilson") for arguments in ((1.1, 5), (-0.1, 5), (0.5, 0))),
        *((sign_flips, (gaps,), "permutation") for gaps in ([], [math.nan], [[1.0]])),
        (mean_interval, ([math.nan],), "no problem"),
        (mean_interval, ([],), "needed"),
        (paired_difference, ([math.nan], [1.0]), "no problem"),
        (paired_difference, ([1.0, 2.0, 3.0], [1.0, 2.0]), "3 and 2 problems"),
    ],
)
def test_what_has_no_interval_is_refused(function, arguments, said):
    with pytest.raises(ValueError, match=said):
        function(*arguments)


def test_a_mean_has_students_interval_and_skewed_values_halls():
    values = np.random.default_rng(0).normal(3, 1, (6, 3))
    theirs = stats.ttest_1samp(values.mean(axis=1), 0).confidence_interval()
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    skewed = np.array([0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 0.9, 1.4, 2.5, 5.0])
    theirs, found = stats.ttest_1samp(skewed, 0).confidence_interval(), mean_interval(skewed)
    n, t, skew = 10, stats.t.ppf(0.975, 9), stats.skew(skewed, bias=False)
    cubic = np.cbrt(1 - skew * (t / n**0.5 + skew / (6 * n)))
    end = skewed.mean() - 3 * n**0.5 / skew * (cubic - 1) * stats.sem(skewed)
    assert found.low == pytest.approx(theirs.low) and found.high == pytest.approx(end) and end > theirs.high


def test_a_rate_has_a_width_at_its_ends():
    none, every = mean_interval([0.0] * 24, rate=True), mean_interval([[1.0, 1.0, 1.0]] * 24, rate=True)
    assert none.low == 0 and 0.1 < none.high < 0.2
    assert every.high == 1 and every.low == pytest.approx(1 - none.high)
    assert mean_interval([0.0] * 96, rate=True).high < none.high / 2
    part = mean_interval([1.0] * 12 + [0.0] * 12, rate=True)
    theirs = wilson(0.5, 25, df=25)  # 26 problems with one at each end; a sample's variance is 26 / 25 of the share's
    assert (part.low, part.high) == pytest.approx((float(theirs[0]), float(theirs[1])))


def test_a_mean_leaves_out_problems_without_a_value():
    assert mean_interval([[1.0, 3.0], [math.nan, 9.0], [2.0, 2.0]]) == Interval(2.0, 2.0, 2.0)


def test_crossed_seeds_add_their_own_variance():
    seeds = np.array([[1.0, 2.0, 6.0]])
    only_seeds = mean_interval(np.repeat(seeds, 10, axis=0), crossed_seeds=True)
    theirs = stats.ttest_1samp(seeds[0], 0).confidence_interval()
    assert (only_seeds.low, only_seeds.high) == pytest.approx((theirs.low, theirs.high)), "seeds alone vary"
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (30, 1)) + rng.normal(0, 1, (1, 4)) + rng.normal(0, 1, (30, 4))
    nested, crossed = mean_interval(values), mean_interval(values, crossed_seeds=True)
    assert crossed.low < nested.low < nested.high < crossed.high
    assert not mean_interval(values[:, :1], crossed_seeds=True).known, "one seed tells of none"
    assert not mean_interval(values[:, :1] > 0, rate=True, crossed_seeds=True).known


def test_a_band_is_the_interval_at_every_place():
    values = np.random.default_rng(0).random((9, 3, 4))
    for crossed, rate in itertools.product((False, True), repeat=2):
        band = np.array(mean_band(values, crossed_seeds=crossed, rate=rate))
        for k in range(4):
            one = mean_interval(values[:, :, k], crossed_seeds=crossed, rate=rate)
            assert band[:, k] == pytest.approx((one.mean, one.low, one.high))


def permuted(gaps, resamples):
    return stats.permutation_test(
        (gaps,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=resamples, rng=0
    ).pvalue


def p_of(gaps):
    return sign_flips(gaps)[2]


def test_sign_flips_are_scipys_permutation_test():
    rng = np.random.default_rng(0)
    for n in (2, 5, 9):
        gaps = rng.normal(0.6, 1, n)
        assert p_of(gaps) == pytest.approx(permuted(gaps, np.inf))
        assert p_of(np.concatenate([gaps, np.zeros(4)])) == pytest.approx(p_of(gaps)), "a tie says nothing"
    many = rng.normal(0.15, 1, 40)
    assert p_of(many) == pytest.approx(permuted(many, 4_999), abs=0.02)
    assert 0.001 < p_of(many) < 0.5
    low, high, p = sign_flips(many)
    assert sign_flips(-many) == pytest.approx((-high, -low, p))
    assert 0 < p_of(np.abs(many) + 1) < 1e-3 and sign_flips(np.zeros(8)) == (0, 0, 1)


@pytest.mark.parametrize("b,c", list(itertools.product((0, 1, 4, 9), repeat=2)))
def test_sign_flips_of_ones_are_mcnemars_exact_test(b, c):
    gaps = [1.0] * b + [-1.0] * c + [0.0] * 2
    exact = stats.binomtest(b, b + c).pvalue if b + c else 1
    assert p_of(gaps) == pytest.approx(exact, abs=1e-9 if len(gaps) <= EXACT_PAIRS else 0.01)


@pytest.mark.parametrize("n", [7, 12, 24])
def test_the_interval_holds_what_the_test_does_not_reject(n):
    """Each end, moved a little in and out, is not rejected, and is."""
    gaps = np.random.default_rng(n).normal(0.3, 1, n)
    low, high, _ = sign_flips(gaps)
    for end, out in ((low, -1), (high, 1)):
        assert p_of(gaps - (end + out * 1e-6)) <= 0.05
        assert p_of(gaps - (end - out * 1e-6)) > 0.05


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("rate", [False, True])
@pytest.mark.parametrize("comparisons", [1, 3])
def test_interval_and_p_agree(crossed, rate, comparisons):
    rng = np.random.default_rng(7)
    shown = 0
    for _ in range(120):
        problems = int(rng.integers(1, 25))
        chance = rng.random((problems, 1))
        a, b = ((rng.random((problems, 3)) < np.clip(chance + shift, 0, 1)) * 1.0 for shift in (rng.random() / 2, 0.0))
        found = paired_difference(a, b, crossed_seeds=crossed, rate=rate, comparisons=comparisons)
        if not found.interval.known:  # seeds of one problem, or nearly all problems, that do not differ
            assert (problems == 1 or not rate) and found.unknown
            continue
        clear = found.interval.low > 0 or found.interval.high < 0
        assert clear == found.shown == (found.p <= 0.05), found
        assert found.interval.low <= found.interval.mean <= found.interval.high
        assert found.possible or not found.shown
        shown += found.shown
    assert 10 < shown < 110


def test_several_arms_widen_the_interval_and_raise_p_alike():
    a, b = np.random.default_rng(0).normal(0.4, 1, 20), np.zeros(20)
    alone, of_three = paired_difference(a, b), paired_difference(a, b, comparisons=3)
    assert of_three.p == pytest.approx(3 * alone.p)
    assert of_three.interval.low < alone.interval.low < alone.interval.high < of_three.interval.high
    assert (alone.interval.mean, alone.comparisons) == (of_three.interval.mean, 1)
    assert [fewest_pairs(k) for k in (1, 2, 3, 4)] == [6, 7, 7, 8]


def test_a_difference_of_one_seed_by_hand():
    a, b = [1] * 10 + [0] * 10, [0] * 9 + [1] * 2 + [0] * 9
    found, back = paired_difference(a, b, rate=True), paired_difference(b, a, rate=True)
    assert found.interval.mean == -back.interval.mean == pytest.approx(0.4) and found.pairs == 20
    assert found.p == back.p == pytest.approx(stats.binomtest(9, 10).pvalue, abs=0.005) and found.shown and back.shown


def test_a_difference_of_several_seeds_averages_them_within_problems():
    rng = np.random.default_rng(0)
    a, b = rng.random((12, 3)), rng.random((12, 5))
    d = paired_difference(a, b)
    gaps = a.mean(axis=1) - b.mean(axis=1)
    low, high, p = sign_flips(gaps)
    assert d.interval.low <= low < high <= d.interval.high and p <= d.p < p + 0.02
    wider = paired_difference(a, b, crossed_seeds=True)
    assert wider.interval.mean == d.interval.mean
    assert wider.interval.low <= d.interval.low < d.interval.high <= wider.interval.high
    assert wider.p >= d.p


def test_a_difference_leaves_a_problem_out_of_both_arms():
    a, b = np.array([[1.0, 1], [5, math.nan], [2, 2]]), np.array([[0.0], [1], [math.inf]])
    d = paired_difference(a, b)
    assert (d.interval.mean, d.pairs) == (1, 1)


def test_no_problem_solved_by_either_arm_leaves_room_for_a_difference():
    few, many = (paired_difference([0] * n, [0] * n, rate=True).interval for n in (6, 60))
    assert few.low == -few.high < -0.2
    assert -0.1 < many.low < 0 < many.high < 0.1


@pytest.mark.parametrize(("problems", "comparisons", "possible"), [(5, 1, False), (6, 1, True), (6, 2, False)])
def test_too_few_problems_say_so(problems, comparisons, possible):
    d = paired_difference([1] * problems, [0] * problems, rate=True, comparisons=comparisons)
    assert (d.possible, d.shown) == (possible, possible)
    said = verdict("vpo", "grpo", d).text
    assert said.endswith(f"; {problems} problems cannot show one)") != possible
    if problems == 5:
        assert said == "no difference shown (vpo - grpo = +1.00 [0.00, 1.00], p = 0.06; 5 problems cannot show one)"


def test_verdicts():
    def of(mean, low, high, p, pairs=60):
        return verdict("vpo", "grpo", Difference(Interval(mean, low, high), pairs, p)).text

    assert of(0.121, 0.034, 0.209, 0.01) == "vpo - grpo = +0.12 [0.03, 0.21]"
    assert of(-0.121, -0.209, -0.034, 0.01) == "vpo - grpo = -0.12 [-0.21, -0.03]"
    assert of(0.121, 0.002, 0.209, 0.04) == "vpo - grpo = +0.121 [0.002, 0.209]", (
        "an end that is not 0 does not look it"
    )
    assert of(0.02, -0.05, 0.09, 0.6) == "no difference shown (vpo - grpo = +0.02 [-0.05, 0.09], p = 0.60)"
    assert of(-0.001, -0.004, 0.002, 0.5) == "no difference shown (vpo - grpo = -0.0010 [-0.0040, 0.0020], p = 0.50)"


@pytest.mark.parametrize(
    ("rate", "shape"),
    [(True, shape) for shape in ((1, 1), (0.2, 0.8), (0.1, 1.9), (1.9, 0.1))]
    + [(False, shape) for shape in ((5, 5), (2, 5), (0.5, 0.5))],
)
def test_intervals_of_solve_rates_and_of_mean_fitness_cover(rate, shape):
    """24 problems x 3 seeds, where the percentile bootstrap covers 92% of rates, and 75% near the ends."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(TRIALS):
        of_problems = rng.beta(*shape, (24, 1))
        values = (rng.random((24, 3)) < of_problems) * 1.0 if rate else of_problems + rng.normal(0, 0.05, (24, 3))
        found = mean_interval(values, rate=rate)
        held += found.low - 1e-12 <= shape[0] / sum(shape) <= found.high + 1e-12
    noise = 2.6 * (0.95 * 0.05 / TRIALS) ** 0.5  # a coverage of .95 is farther from it once in a hundred cases
    assert 0.95 - noise <= held / TRIALS <= (1.0 if rate else 0.95 + noise)


def test_one_seed_that_acts_on_all_problems_has_no_interval_and_calls_nothing():
    """Under one seed of each policy the difference of the policies and that of the seeds are one."""
    rng = np.random.default_rng(0)
    a, b = rng.random((30, 1)) + 0.3, rng.random((30, 3))
    for rate in (False, True):
        found = paired_difference(a, b, rate=rate, crossed_seeds=True)
        assert not found.interval.known and not found.shown and found.p == 1
        assert verdict("a", "b", found).text.endswith("; one seed that acts on all problems has no interval)")
    assert paired_difference(a, b).shown and paired_difference(b + 0.8, b, crossed_seeds=True).interval.known


def test_means_have_no_interval_where_the_values_do_not_tell_how_far_a_problem_may_go():
    """A gain of .05 on every problem seen, and values that reach nowhere else: a loss of .45 on a tenth cancels it."""
    gains = np.full(12, 0.05)
    told = verdict("a", "b", paired_difference(gains, np.zeros(12))).text
    assert told.startswith("no difference shown (a - b = +0.05; the values do not tell how far")
    assert paired_difference(gains, np.zeros(12), least=0.0).shown, "if nothing can be lost"
    spread = np.linspace(0.5, 0.9, 12)
    of_spread = paired_difference(spread + gains, spread)
    assert of_spread.interval.low < 0 < 0.05 < of_spread.interval.high and not of_spread.shown
    assert paired_difference(np.linspace(0.5, 0.9, 60) + 0.1, np.linspace(0.5, 0.9, 60)).shown
    ties = paired_difference([0.5] * 10 + [0.9, 0.8], [0.5] * 12)
    assert ties.unknown == "2 of 12 problems differ, which leaves no interval" and not ties.shown


@pytest.mark.parametrize("values", [[[0.7]], [[0.7, 0.7, 0.7]]])
def test_a_mean_without_spread_over_seeds_has_no_interval(values: list[list[float]]) -> None:
    found = mean_interval(values)
    assert found.mean == pytest.approx(0.7)
    assert not found.known
    assert str(found) == "+0.700"
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False)) == {"mean": found.mean, "low": None, "high": None}


def test_seeds_of_one_problem_are_as_problems_of_one_seed():
    several, problems = mean_interval([[1, 1, 0, 1, 1]], rate=True), mean_interval([[1], [1], [0], [1], [1]], rate=True)
    assert (several.low, several.high) == pytest.approx((problems.low, problems.high))
    assert 0 < several.low < 0.8 < several.high < 1
    assert mean_interval([[1.0, 1.0]], rate=True).low < 1.0 and not mean_interval([[1.0]], rate=True).known
    many, few = curve_of([[2.0, 4.0, math.inf, 3.0]]), curve_of([[2.0], [4.0], [math.inf], [3.0]])
    assert many.low == pytest.approx(few.low) and many.high == pytest.approx(few.high) and many.mean[-1] == 0.75
    seeds = np.array([0.2, 0.5, 0.9, 0.4])
    low, high = stats.t.interval(0.95, 3, seeds.mean(), stats.sem(seeds))
    found = mean_interval(seeds[None])
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, low, high))


def curve_of(solved_at: list[list[float]]):
    solved = np.array(solved_at)
    return solve_curve(Results(solved, np.full(solved.shape, 10), 10))


def test_one_search_has_a_curve_without_a_band() -> None:
    curve = curve_of([[7.0]])
    assert list(curve.mean) == [0.0] * 6 + [1.0] * 4
    assert np.isnan(curve.low).all() and np.isnan(curve.high).all()
    assert curve.half() == 7


def test_the_exchange_of_seeds_is_scipys_permutation_test():
    rng = np.random.default_rng(3)
    for _ in range(10):
        a, b = rng.normal(size=4).round(1), rng.normal(1, size=5).round(1)
        theirs = stats.permutation_test((a, b), lambda x, y: x.mean() - y.mean(), n_resamples=np.inf)
        assert exchange_test(a, b) == pytest.approx(theirs.pvalue)
    a, b = rng.normal(0.8, size=12), rng.normal(size=12)
    assert splits(12, 12) > 1_000_000, "these are exchanged at random"
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


LEAST = 0.94
FEWEST_KNOWN = 0.2
"""Where fewer comparisons have an interval, their number is too small to say how often these hold the truth."""


def slack(runs):
    """A true coverage of LEAST falls this far below it once in some two hundred cases."""
    return 2.6 * (LEAST * (1 - LEAST) / runs) ** 0.5


@pytest.mark.parametrize("name", SCENARIOS)
def test_intervals_hold_the_truth_and_no_difference_is_called_one(name, runs=120, problems=(8,), seeds=(1, 3)):
    truth = SCENARIOS[name][1]
    for count in problems:
        for several in seeds:
            covered, shown, known = measure(name, count, several, runs, seed=3)
            if known >= FEWEST_KNOWN:
                assert covered >= LEAST - slack(runs * known), (count, several)
            assert truth or shown <= 1 - LEAST + slack(runs), (count, several)


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_for_more_problems_and_seeds(name):
    test_intervals_hold_the_truth_and_no_difference_is_called_one(name, 240, PROBLEMS, (1, 3, 5))


@pytest.mark.parametrize(
    ("base", "gain", "problems", "seeds"), [(0.3, 0.4, 10, 3), (0.1, 0.2, 20, 3), (0.3, 0.4, 12, 1)]
)
def test_rates_are_shown_nearly_as_often_as_by_the_exact_test(base, gain, problems, seeds):
    """The earlier padding of a whole problem showed the first in 39% of comparisons, the exact test in 79%."""
    rng = np.random.default_rng(5)
    shown = exact = 0
    for _ in range(200):
        first, second = better(rng, problems, seeds, base, gain)
        shown += paired_difference(first, second, rate=True).shown
        exact += sign_flips(first.mean(axis=1) - second.mean(axis=1))[2] <= 0.05
    assert exact - 0.06 * 200 <= shown <= exact and problems >= fewest_pairs()


@pytest.mark.parametrize(("problems", "seeds"), [(8, 1), (12, 3), (40, 1)])
def test_the_difference_that_a_comparison_can_show_is_shown_in_four_of_five(problems, seeds):
    gain, rng = detectable(problems, seeds), np.random.default_rng(2)
    found = [paired_difference(*rates(rng, problems, seeds, 0.5 - gain / 2, gain), rate=True) for _ in range(150)]
    assert 0.68 <= np.mean([one.shown for one in found]) <= 0.92
    assert detectable(problems, seeds, 3) > gain > detectable(2 * problems, seeds) and detectable(5, seeds) is None


@pytest.mark.parametrize(("size", "told"), yaml_rows(__file__, "a_comparison_says_before_it_starts_what_it_can_show"))
def test_a_comparison_says_before_it_starts_what_it_can_show(size, told):
    assert describe_detectable(*size).startswith(told)
