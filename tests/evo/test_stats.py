"""Intervals and tests against scipy and closed forms, and what they promise by simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats as reference

from evo.evaluation.metrics import FEWEST_PAIRS, Difference
from evo.stats import (
    EXACT_PAIRS,
    TestedDifference,
    adjusted,
    difference,
    holm,
    mcnemar,
    mean_interval,
    resampled_means,
    sign_flip,
    verdict,
    wilson,
)
from vpo.metrics import Interval, bootstrap

QUICK = 400


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_is_scipys(level):
    pairs = [(k, n) for n in (1, 7, 60) for k in range(n + 1)]
    low, high = wilson([k / n for k, n in pairs], [n for _, n in pairs], level)
    for i, (k, n) in enumerate(pairs):
        theirs = reference.binomtest(k, n).proportion_ci(level, method="wilson")
        assert (low[i], high[i]) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert low[0] == 0
    assert high[1] == 1


def test_wilson_takes_sizes_that_are_not_whole_and_lets_the_unknown_through():
    narrow, wide = wilson(0.3, 20.5), wilson(0.3, 10.5)
    assert wide[0] < narrow[0] < 0.3 < narrow[1] < wide[1]
    assert np.isnan(wilson(np.nan, 5)).all()


@pytest.mark.parametrize("arguments", [(1.1, 5), (-0.1, 5), (0.5, 0)])
def test_wilson_refuses_what_is_no_share(arguments):
    with pytest.raises(ValueError, match="Wilson"):
        wilson(*arguments)


@pytest.mark.parametrize("b,c", list(itertools.product((0, 1, 4, 9), repeat=2)))
def test_mcnemar_is_the_binomial_test(b, c):
    assert mcnemar(b, c) == pytest.approx(reference.binomtest(b, b + c).pvalue if b + c else 1)


def test_mcnemar_refuses_negative_counts():
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 3)


def permuted(gaps, resamples):
    return reference.permutation_test(
        (gaps,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=resamples, rng=0
    ).pvalue


def test_sign_flips_are_scipys_permutation_test():
    rng = np.random.default_rng(0)
    for n in (2, 5, 9):
        gaps = rng.normal(0.6, 1, n)
        assert sign_flip(gaps) == pytest.approx(permuted(gaps, np.inf))
        assert sign_flip(np.concatenate([gaps, np.zeros(50)])) == sign_flip(gaps), "a tie says nothing"
    many = rng.normal(0.15, 1, 40)
    assert sign_flip(many) == pytest.approx(permuted(many, 4_999), abs=0.02)
    assert 0.001 < sign_flip(many) < 0.5


def test_sign_flips_of_ones_are_mcnemars_test_below_and_above_the_exact_limit():
    assert sign_flip([1.0] * 9 + [-1.0] * 3) == pytest.approx(mcnemar(9, 3))
    more = (17, 6)
    assert sum(more) > EXACT_PAIRS
    assert sign_flip([0.1] * more[0] + [-0.1] * more[1]) == pytest.approx(mcnemar(*more), abs=0.01)


def test_sign_flips_are_symmetric_and_never_zero():
    gaps = np.random.default_rng(1).random(30) + 1
    assert sign_flip(gaps) == sign_flip(-gaps) == pytest.approx(1e-4, rel=0.01)
    assert sign_flip(np.zeros(8)) == 1


@pytest.mark.parametrize("gaps", [[], [math.nan], [[1.0]]])
def test_sign_flips_refuse_what_is_no_row_of_numbers(gaps):
    with pytest.raises(ValueError, match="permutation"):
        sign_flip(gaps)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6, 0.01]) == pytest.approx([1.0, 1.0, 0.03])
    assert holm([0.2]) == pytest.approx([0.2])
    assert len(holm([])) == 0
    with pytest.raises(ValueError, match="Holm"):
        holm([0.2, math.nan])


def test_holm_keeps_the_chance_of_any_false_call():
    uniform = np.random.default_rng(0).random((2_000, 4))
    assert (uniform < 0.05).any(axis=1).mean() > 0.15
    assert np.mean([(holm(row) < 0.05).any() for row in uniform]) == pytest.approx(0.05, abs=0.015)


def test_resampling_one_seed_is_the_bootstrap_over_problems():
    values = np.random.default_rng(0).random(30)
    low, high = np.quantile(resampled_means(values), [0.025, 0.975])
    plain = bootstrap(values)
    assert (low, high) == pytest.approx((plain.low, plain.high), abs=0.005)
    assert np.array_equal(resampled_means(values, resamples=700)[:512], resampled_means(values, resamples=512))


def test_resampling_pairs_problems_and_draws_each_arms_seeds_alone():
    hard = np.random.default_rng(0).random((20, 1)) * 100
    shift = np.array([[0.0, 1.0, 2.0]])
    means = resampled_means(hard + shift, hard, resamples=4_000)
    assert means.std() == pytest.approx(np.sqrt((2 / 3) / 3), rel=0.05), "only the seeds' spread is left"
    assert means.mean() == pytest.approx(1, abs=0.05)
    apart = resampled_means(hard + shift, hard + shift, resamples=4_000)
    assert apart.std() == pytest.approx(np.sqrt(2 * (2 / 3) / 3), rel=0.05)


def test_resampling_shares_draws_over_trailing_axes():
    values = np.random.default_rng(0).random((10, 3, 4))
    means = resampled_means(values, resamples=50)
    assert means.shape == (50, 4)
    for k in range(4):
        assert means[:, k] == pytest.approx(resampled_means(values[:, :, k], resamples=50))


@pytest.mark.parametrize(
    "a,b", [(np.ones((3, 2)), np.ones((4, 2))), (np.ones((3, 2, 5)), np.ones((3, 2, 4))), ([], [])]
)
def test_resampling_refuses_what_does_not_pair(a, b):
    with pytest.raises(ValueError, match="needed"):
        resampled_means(a, b)


def test_a_mean_leaves_out_problems_without_a_value():
    assert mean_interval([[1.0, 3.0], [math.nan, 9.0], [2.0, 2.0]]) == Interval(2.0, 2.0, 2.0)
    crossed = mean_interval([[1.0, 3.0], [1.0, 3.0]], crossed_seeds=True)
    assert (crossed.mean, crossed.low, crossed.high) == (2, 1, 3)
    with pytest.raises(ValueError, match="no problem"):
        mean_interval([math.nan])


def test_a_difference_of_one_seed_by_hand():
    a, b = [1] * 10 + [0] * 10, [0] * 9 + [1] * 2 + [0] * 9
    d = difference(a, b)
    assert d.interval.mean == pytest.approx(0.4)
    assert d.pairs == 20
    assert d.p == mcnemar(9, 1)
    assert d.shown
    back = difference(b, a)
    assert back.interval.mean == -d.interval.mean
    assert (back.p, back.shown) == (d.p, True)


def test_a_difference_of_several_seeds_averages_them_within_problems():
    rng = np.random.default_rng(0)
    a, b = rng.random((12, 3)), rng.random((12, 5))
    d = difference(a, b)
    gaps = a.mean(axis=1) - b.mean(axis=1)
    assert d.interval == bootstrap(gaps)
    assert d.p == sign_flip(gaps)
    wider = difference(a, b, crossed_seeds=True)
    assert wider.interval.mean == d.interval.mean
    assert wider.interval.low < d.interval.low < d.interval.high < wider.interval.high


def test_a_difference_leaves_a_problem_out_of_both_arms():
    a, b = np.array([[1.0, 1], [5, math.nan], [2, 2]]), np.array([[0.0], [1], [math.inf]])
    d = difference(a, b)
    assert (d.interval.mean, d.pairs) == (1, 1)
    with pytest.raises(ValueError, match="no problem"):
        difference([math.nan], [1.0])
    with pytest.raises(ValueError, match="3 and 2 problems"):
        difference(a, b[:2])


def test_four_problems_to_none_are_no_difference():
    a, b = [1] * 4 + [0] * 56, [0] * 60
    d = difference(a, b)
    assert Difference(d.interval, d.pairs).shown, "the bootstrap alone would call it one"
    assert d.p == 0.125
    assert not d.shown
    assert verdict("vpo", "grpo", d) == "no difference shown (vpo - grpo = +0.07 [0.02, 0.13], p = 0.12)"


def test_what_makes_a_difference_shown():
    apart = Interval(0.1, 0.05, 0.2)
    assert TestedDifference(apart, FEWEST_PAIRS, 0.05).shown
    assert not TestedDifference(apart, FEWEST_PAIRS, 0.051).shown
    assert not TestedDifference(apart, FEWEST_PAIRS - 1, 0.01).shown
    assert not TestedDifference(Interval(0.1, 0.0, 0.2), 60, 0.01).shown


def test_verdicts():
    def of(mean, low, high, pairs=60, p=0.01):
        return verdict("vpo", "grpo", TestedDifference(Interval(mean, low, high), pairs, p))

    assert of(0.121, 0.034, 0.209) == "vpo - grpo = +0.12 [0.03, 0.21]"
    assert of(-0.121, -0.209, -0.034) == "vpo - grpo = -0.12 [-0.21, -0.03]"
    assert of(0.02, -0.05, 0.09, p=0.6) == "no difference shown (vpo - grpo = +0.02 [-0.05, 0.09])"
    assert of(-0.001, -0.004, 0.002) == "no difference shown (vpo - grpo = +0.00 [0.00, 0.00])"
    assert of(1, 1, 1, pairs=5, p=0.06) == (
        "no difference shown (vpo - grpo = +1.00 [1.00, 1.00], 5 of at least 6 problems)"
    )
    assert verdict("a", "b", Difference(Interval(0.5, 0.25, 0.75), 6)) == "a - b = +0.50 [0.25, 0.75]"


def test_several_arms_against_one():
    apart = Interval(0.1, 0.05, 0.2)
    raw = {"base": 0.03, "grpo": 0.004, "best-of-n": 0.2}
    corrected = adjusted({name: TestedDifference(apart, 60, p) for name, p in raw.items()})
    assert {name: d.p for name, d in corrected.items()} == pytest.approx(
        {"base": 0.06, "grpo": 0.012, "best-of-n": 0.2}
    )
    assert [name for name, d in corrected.items() if d.shown] == ["grpo"]


def test_false_calls_are_rare_and_true_differences_are_found():
    rng = np.random.default_rng(0)
    calls, by_interval, found = 0, 0, 0
    for _ in range(200):
        chance = rng.beta(0.4, 0.6, 10)[:, None]
        d = difference(rng.random((10, 3)) < chance, rng.random((10, 3)) < chance, resamples=QUICK)
        calls, by_interval = calls + d.shown, by_interval + Difference(d.interval, d.pairs).shown
        chance = rng.beta(0.4, 0.6, 60)[:, None]
        better = chance + 0.3 * (1 - chance)
        found += difference(rng.random((60, 3)) < better, rng.random((60, 3)) < chance, resamples=QUICK).shown
    assert calls <= 0.05 * 200
    assert by_interval > calls, "ten problems are few for a bootstrap"
    assert found > 0.9 * 200


def test_intervals_cover_when_seeds_are_repeats():
    rng = np.random.default_rng(1)
    hits, two_level = 0, 0
    for _ in range(200):
        chance = rng.beta(0.8, 1.2, 60)[:, None]
        a, b = (rng.random((60, 3)) < chance + 0.2 * (1 - chance)) * 1.0, (rng.random((60, 3)) < chance) * 1.0
        truth = 0.2 * 0.6
        for crossed in (False, True):
            interval = difference(a, b, crossed_seeds=crossed, resamples=QUICK).interval
            inside = interval.low <= truth <= interval.high
            hits, two_level = hits + (inside and not crossed), two_level + (inside and crossed)
    assert 0.91 * 200 <= hits <= 0.985 * 200
    assert two_level > hits, "resampling such seeds counts their noise twice"


def test_intervals_cover_when_seeds_act_on_all_problems():
    rng = np.random.default_rng(2)
    hits, averaged = 0, 0
    for _ in range(200):
        problem = rng.normal(0, 1, (40, 1))
        a, b = (problem + rng.normal(0, 0.3, (1, 6)) + rng.normal(0, 0.3, (40, 6)) for _ in range(2))
        for crossed in (False, True):
            interval = difference(a, b, crossed_seeds=crossed, resamples=QUICK).interval
            inside = interval.low <= 0 <= interval.high
            averaged, hits = averaged + (inside and not crossed), hits + (inside and crossed)
    assert hits >= 0.88 * 200
    assert averaged < 0.7 * 200
