"""Paired differences of two arms: an interval, a test and a verdict, which agree with each other.

The interval is the hull of several, each with its test; p is the largest p, so the interval excludes 0 exactly if p is
at most 1 - level. bench/coverage.py simulates coverage and power.

- Sign flips of each problem's difference (Fisher 1935). The interval consists of the differences that the test does not
  reject; its ends are quantiles of the means over subsets of the problems (Hartigan 1969, typical values).
- Hall's (1992), which allows for skewed differences.
- The rule of three for what was not seen (_unseen).
- For rates, and seeds that act on all problems, Student's. For rates it adds half a search that only the first arm
  solved and half a search that only the second arm solved (after Agresti and Min 2005); without them, few discordant
  problems give too narrow an interval.

A single problem is compared over its seeds (seed_difference).

If several pairs of arms are compared, interval and p are corrected for all of them (Bonferroni).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.stats.intervals import CONFIDENCE, Interval, moments, seed_variance, skewed, with_seeds
from vpo.scalarize import Floats

SIGNIFICANCE = 1 - CONFIDENCE
EXACT_PAIRS = 13
"""Problems up to which all 2^n subsets are used; 2^13 is about FLIPS."""
FLIPS = 10_000
PADDING = 0.5
"""Searches solved by only one arm, added to rates for each arm."""
UNSEEN = 0.08
"""The chance that no problem of a comparison shows the differences that would change its result. At 0.05 comparisons of
8 problems lose up to a third of their power, at 0.10 rare losses are covered in 93% (bench/results/coverage.md)."""
FEWEST_DIFFERING = 3
"""Problems that differ. The next gain or loss, in one of 8 to 12 problems, may be larger than all values seen."""
BLOCK = 512


@dataclass(frozen=True)
class Difference:
    """First minus second over `pairs` problems.

    interval: 95%, simultaneous for all pairs of arms that `comparisons` counts; its ends are NaN if noise and
        difference cannot be separated
    p: two-sided, corrected in the same way
    seeds: how many each arm has, if there is only one problem: the interval is then over its seeds
    unknown: why there is no interval; empty if there is one
    needed: how many problems with this mean and these values no rare one could cancel (_unseen); None for none
    """

    interval: Interval
    pairs: int
    p: float
    comparisons: int = 1
    seeds: tuple[int, int] = (1, 1)
    unknown: str = ""
    needed: int | None = None

    @property
    def shown(self) -> bool:
        """Whether the test shows that the difference is not 0. The interval excludes 0 exactly then."""
        return self.p <= SIGNIFICANCE + 1e-12

    @property
    def possible(self) -> bool:
        """Whether this number of problems, or of seeds of one problem, can show any difference."""
        if self.pairs == 1:
            return min(self.seeds) > 1 and 2 * self.comparisons <= SIGNIFICANCE * splits(*self.seeds) + 1e-12
        return self.pairs >= fewest_pairs(self.comparisons)


def fewest_pairs(comparisons: int = 1) -> int:
    """The fewest problems that can be significant: with equal signs p is 2 / 2^n, times `comparisons`."""
    return math.ceil(math.log2(2 * comparisons / SIGNIFICANCE) - 1e-12)


def fewest_seeds(comparisons: int = 1) -> int:
    """The fewest seeds of one problem, in each arm, that can be significant (exchange_test)."""
    return next(seeds for seeds in range(2, 30) if 2 * comparisons <= SIGNIFICANCE * splits(seeds, seeds) + 1e-12)


def detectable(problems: int, seeds: int, comparisons: int = 1, power: float = 0.8) -> float | None:
    """The difference of two solve rates about one half that such a comparison shows with the chance `power`, if all
    searches are independent; None if so few problems show none. Student's, with PADDING; a test simulates it."""
    from scipy.special import stdtrit  # imported here: searches without intervals do not need scipy

    if problems < fewest_pairs(comparisons):
        return None
    quantiles = stdtrit(problems - 1, 1 - SIGNIFICANCE / comparisons / 2) + stdtrit(problems - 1, power)
    square = quantiles**2 * (0.5 + 2 * PADDING / problems) / seeds / problems
    few = 1 + 2 / (seeds * problems)  # fitted: few searches have few possible results
    return min(1.0, float(few * math.sqrt(square / (1 + square))))


def paired_difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    rate: bool = False,
    crossed_seeds: bool = False,
    comparisons: int = 1,
    least: float | None = None,
) -> Difference:
    """a - b over the same problems in the same order: (P,) or (P, S), (P,) or (P, S') -> Difference.

    rate: values are in [0, 1]; comparisons: how many pairs of arms are compared
    least: no value can be below it, as a fitness or a time cannot be below 0. Without it, values of one arm about 0 and
        of the other far from it have no interval: nothing then tells how far a problem may go the other way
    A problem with a value that is not finite, in either arm under any seed, is left out of both arms; `pairs` counts
    the others. Raises ValueError if the numbers of problems differ or no problem is left.
    """
    first, second = with_seeds(a), with_seeds(b)
    if len(first) != len(second):
        raise ValueError(f"a pair for every problem is needed: {len(first)} and {len(second)} problems")
    known = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    if not known.any():
        raise ValueError("no problem has a value in both arms under every seed")
    first, second = first[known], second[known]
    gaps = first.mean(axis=1) - second.mean(axis=1)
    mean, pairs = float(gaps.mean()), len(gaps)
    alpha = SIGNIFICANCE / comparisons
    seeds = (first.shape[1], second.shape[1])
    if pairs == 1:
        low, high, p = seed_difference(first[0], second[0], alpha, rate)
        if rate and not math.isnan(low):
            low, high = max(-1.0, low), min(1.0, high)
        unknown = "the seeds of one problem do not differ, which leaves no interval" if math.isnan(low) else ""
        unknown = unknown if min(seeds) > 1 else "one problem under one seed has no interval"
        return Difference(Interval(mean, low, high), 1, min(1.0, p * comparisons), comparisons, seeds, unknown)
    reach = _reach(first, second, rate)
    if crossed_seeds and min(seeds) == 1:
        unknown = "one seed that acts on all problems has no interval"
    else:
        unknown = "" if rate else _why_unknown(first, second, gaps, reach, least)
    needed = _fewest_unseen(mean, reach, comparisons)
    if unknown:
        return Difference(Interval(mean, math.nan, math.nan), pairs, 1.0, comparisons, unknown=unknown, needed=needed)
    found: list[tuple[Any, Any, Any]] = [sign_flips(gaps, alpha), _unseen(mean, pairs, reach, alpha)]
    if math.isinf(found[0][0]):  # too few problems to reject anything
        found[0] = (0.0, 0.0, found[0][2])
    if not rate or pairs > EXACT_PAIRS:  # of few problems' rates it would cost power, and PADDING covers them
        of = moments(first, second)
        found.append(skewed(gaps, np.sqrt(of.variance), of.df, 1 - alpha))
    if rate or crossed_seeds:
        found.append(_student(first, second, alpha, rate, crossed_seeds))
    lows, highs, ps = (list(map(float, of_all)) for of_all in zip(*found, strict=True))
    low, high = min(*lows, mean), max(*highs, mean)
    if rate:
        low, high = max(low, -1.0), min(high, 1.0)
    p = min(1.0, max(ps) * comparisons)
    return Difference(Interval(mean, low, high), pairs, p, comparisons, needed=needed)


def _reach(first: Floats, second: Floats, rate: bool) -> tuple[float, float]:
    """How far a problem that was not seen may be below 0 and above it: one arm falls from its mean to the least value,
    or the other rises to the largest. Values are taken to reach from 0; rates to 1."""
    a, b = float(first.mean()), float(second.mean())
    bottom = min(0.0, float(first.min()), float(second.min()))
    top = max(1.0 if rate else 0.0, float(first.max()), float(second.max()))
    return max(b - bottom, top - a), max(a - bottom, top - b)


def _why_unknown(first: Floats, second: Floats, gaps: Floats, reach: tuple[float, float], least: float | None) -> str:
    """Why means of quantities that may be of any size have no interval; "" if they have."""
    differing = int((np.abs(gaps) > 1e-9 * max(reach)).sum())
    if differing < min(FEWEST_DIFFERING, len(gaps)):
        return f"{differing} of {len(gaps)} problems differ, which leaves no interval"
    bounded = least is not None and min(first.min(), second.min()) >= least
    mean = float(gaps.mean())
    near = min(abs(first.mean()), abs(second.mean())) < 0.2 * abs(mean)
    if near and not bounded and reach[0 if mean > 0 else 1] < 1.5 * abs(mean):
        return "the values do not tell how far a problem may go the other way, which leaves no interval"
    return ""


def _unseen(mean: float, pairs: int, reach: tuple[float, float], alpha: float) -> tuple[float, float, float]:
    """Low, high and p by the rule of three (Hanley and Lippman-Hand 1983): as if none of the problems that differ most
    (_reach) were among these. They may be the share of which n problems show none with the chance UNSEEN. So a rare
    loss that 20 problems do not show may cancel a gain that all of them show."""
    share = 1 - (UNSEEN * alpha / SIGNIFICANCE) ** (1 / pairs)
    back = reach[0] if mean > 0 else reach[1]
    p = (back / (back + abs(mean))) ** pairs * SIGNIFICANCE / UNSEEN if mean else 1.0
    return mean - share * (reach[0] + mean), mean + share * (reach[1] - mean), min(1.0, p)


def _fewest_unseen(mean: float, reach: tuple[float, float], comparisons: int) -> int | None:
    """The number of pairs from which on the p of `_unseen` is significant; None for no difference."""
    back = reach[0] if mean > 0 else reach[1]
    if abs(mean) <= 1e-12 * back or back <= 0:
        return None
    pairs = -math.log(UNSEEN / comparisons) / math.log1p(abs(mean) / back)
    return max(fewest_pairs(comparisons), math.ceil(pairs - 1e-9))


def sign_flips(gaps: npt.ArrayLike, alpha: float = SIGNIFICANCE) -> tuple[float, float, float]:
    """Low and high of the 1 - alpha interval, and two-sided p, of the mean of paired differences: (P,) -> three.

    A difference is rejected if it is above, or below, nearly all means over subsets of the problems: flipping a
    subset's signs gives an equally extreme sum exactly if the subset's mean is beyond the difference. All subsets are
    used up to EXACT_PAIRS problems, else FLIPS random ones (with their complements). The ends are infinite if there are
    too few problems to reject anything. Raises ValueError if there is no value or one is not finite.
    """
    values = np.asarray(gaps, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError("a permutation test needs at least one difference, all finite")
    means = np.sort(_subset_means(values))
    count = len(means) + 1  # the observed difference, with no sign flipped
    means[np.abs(means) <= 1e-12 * np.abs(values).max()] = 0.0  # sums of the same numbers differ in the last bits
    below, above = 1 + int((means <= 0).sum()), 1 + int((means >= 0).sum())
    rejected = math.floor(count * alpha / 2 + 1e-9)
    low, high = (float(means[rejected - 1]), float(means[-rejected])) if rejected else (-math.inf, math.inf)
    return low, high, min(1.0, 2 * min(below, above) / count)


def _subset_means(values: Floats) -> Floats:
    """Means over subsets of the values, without the empty subset."""
    n = len(values)
    if n <= EXACT_PAIRS:
        masks = _all_subsets(n)
        return np.asarray(masks @ values / masks.sum(axis=1))
    subsets = _random_subsets(n)
    sums, sizes = np.empty(len(subsets)), np.empty(len(subsets))
    for start in range(0, len(subsets), BLOCK):
        masks = subsets[start : start + BLOCK].astype(np.float64)
        sums[start : start + len(masks)], sizes[start : start + len(masks)] = masks @ values, masks.sum(axis=1)
    sums, sizes = np.concatenate([sums, values.sum() - sums]), np.concatenate([sizes, n - sizes])
    return np.asarray(sums[sizes > 0] / sizes[sizes > 0])


@lru_cache(maxsize=4)
def _all_subsets(n: int) -> Floats:
    """Which of n values each subset has, without the empty subset: (2^n - 1, n) of 0 and 1."""
    masks = (np.arange(1, 2**n)[:, None] >> np.arange(n) & 1).astype(np.float64)
    masks.flags.writeable = False
    return masks


@lru_cache(maxsize=4)
def _random_subsets(n: int) -> npt.NDArray[np.bool_]:
    """Half of the FLIPS subsets of n values, the others are their complements: (FLIPS / 2, n). Every comparison of n
    problems uses the same ones, and drawing them takes longer than the test."""
    rng = np.random.default_rng(0)
    subsets = np.empty((FLIPS // 2, n), np.bool_)
    for start in range(0, len(subsets), BLOCK):
        block = subsets[start : start + BLOCK]
        block[:] = rng.integers(0, 2, block.shape)
    subsets.flags.writeable = False
    return subsets


def _student(first: Floats, second: Floats, alpha: float, rate: bool, crossed: bool) -> tuple[float, float, float]:
    """Low, high and two-sided p of Student's test over problems, for rates and for seeds that act on all problems.

    Rates get half a search that only the first arm solved, and half that only the second solved (PADDING of a problem,
    shared among its seeds). For seeds that act on all problems, the square of the half-width is the sum of the squares
    for problems and for seeds, each with its own quantile (Graybill and Wang 1980): few seeds estimate their variance
    badly, however many problems there are.
    """
    from scipy.special import stdtr, stdtrit  # imported here: searches without intervals do not need scipy

    padding = PADDING / min(first.shape[1], second.shape[1]) if rate else 0.0
    gaps = first.mean(axis=1) - second.mean(axis=1)
    count = len(gaps) + 2 * padding
    mean = float(gaps.sum()) / count
    squares = float(((gaps - mean) ** 2).sum()) + padding * ((1 - mean) ** 2 + (1 + mean) ** 2)
    df, problems = count - 1, squares / (count - 1) / count
    of_seeds = [seed_variance(arm) for arm in (first, second) if crossed and arm.shape[1] > 1]
    if not problems and not any(seeds for seeds, _, _ in of_seeds):
        return mean, mean, 0.0 if mean else 1.0
    if not of_seeds:
        error = math.sqrt(problems)
        half = float(stdtrit(df, 1 - alpha / 2)) * error
        return mean - half, mean + half, 2 * float(stdtr(df, -abs(mean) / error))
    seeds, twice, df_seeds = (float(sum(part)) for part in zip(*of_seeds, strict=True))

    def half_width(level: float) -> float:
        of_problem, of_seed = (float(stdtrit(freedom, 1 - level / 2)) ** 2 for freedom in (df, df_seeds))
        both = of_problem * max(problems - twice, 0.0) + of_seed * seeds
        return math.sqrt(max(both, of_problem * problems))

    half = half_width(alpha)
    low, high = 0.0, 1.0  # p is the level whose interval ends at 0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if half_width(middle) > abs(mean) else (low, middle)
    return mean - half, mean + half, high


@dataclass(frozen=True)
class Verdict:
    """A difference in words. shown: whether it is shown not to be 0 (Difference.shown)."""

    text: str
    shown: bool

    def __str__(self) -> str:
        return self.text


def write_difference(difference: Difference, digits: int = 2, lower: bool = False) -> str:
    """+0.12 [0.03, 0.21], without ends if they are not known. lower: whether lower is better, which an arrow tells, and
    a word where the difference is shown: +7.93 [2.14, 13.72] ↓ worse. digits: behind the point, more for small ends,
    none for large ones"""
    interval = difference.interval
    ends = [abs(end) for end in (interval.low, interval.high)] if interval.known else [abs(interval.mean)]
    inner, outer = min(ends), max(ends)
    if 0 < outer < 0.01:
        digits = 1 - math.floor(math.log10(outer))
    elif outer >= LARGE:
        digits = 0
    while difference.shown and digits < 4 and round(inner, digits) == 0:  # an end that is not 0 is not printed as 0
        digits += 1
    form = f".{digits}f" if outer < HUGE else ".4g"
    # adding 0.0 turns -0.0 into 0.0
    mean, low, high = (round(x, digits) + 0.0 for x in (interval.mean, interval.low, interval.high))
    text = f"{mean:+{form}}" + (f" [{low:{form}}, {high:{form}}]" if interval.known else "")
    if not lower:
        return text
    return f"{text} ↓" + (f" {'worse' if interval.mean > 0 else 'better'}" if difference.shown else "")


LARGE, HUGE = 1e3, 1e7
"""Differences from these on are written as whole numbers, and with four digits."""


def verdict(a_name: str, b_name: str, difference: Difference, digits: int = 2, lower: bool = False) -> Verdict:
    """`vpo - grpo = +0.12 [0.03, 0.21]` if the difference is shown, else `no difference shown` with its numbers.
    digits, lower: as write_difference takes them"""
    unknown, interval = difference.unknown, difference.interval
    numbers = f"{a_name} - {b_name} = {write_difference(difference, digits, lower)}"
    if difference.shown:
        text = f"{numbers} ({unknown}; p = {difference.p:.2g})" if unknown else numbers
    elif not interval.known and difference.p == 1:
        text = f"no difference shown ({numbers}; {unknown})"
    else:
        several, seeds = difference.pairs > 1, min(difference.seeds)
        size = f"{difference.pairs} problems" if several else f"{seeds} seeds of one problem"
        why = [unknown, "" if difference.possible else f"{size} cannot show one"]
        text = f"no difference shown ({'; '.join(filter(None, (f'{numbers}, p = {difference.p:.2f}', *why)))})"
    return Verdict(text, difference.shown)


# Differences of two arms on one problem. Only its seeds separate noise from difference, and the result holds only for
# that problem.
#
# The first test exchanges seeds between the arms (Fisher 1935). The second is Welch's (1947), as Student's is for
# several problems. Rates get one more seed that solved and one that did not, in both arms (Agresti and Caffo 2000). The
# interval is Welch's, extended to 0 if there are too few seeds to reject anything.


MOST_SPLITS = 20_000
"""Ways to exchange seeds up to which all are used: 8 seeds in both arms have 12,870. Of more, this many are drawn."""


def splits(first: int, second: int) -> int:
    """The number of ways to divide the seeds of both arms between the arms."""
    return math.comb(first + second, first)


def exchange_test(first: Floats, second: Floats) -> float:
    """Two-sided p of the difference of means: (S,) and (S',) seeds. It is twice the share of the ways to exchange seeds
    between the arms, the observed one included, that give a difference at least as large on the same side."""
    seeds = np.concatenate([first, second])
    count = len(first)
    if splits(count, len(second)) <= MOST_SPLITS:
        taken = np.array(list(islice(combinations(range(len(seeds)), count), MOST_SPLITS)))
    else:
        rng = np.random.default_rng(0)
        drawn = rng.permuted(np.tile(np.arange(len(seeds)), (MOST_SPLITS - 1, 1)), axis=1)[:, :count]
        taken = np.concatenate([np.arange(count)[None], drawn])
    sums = seeds[taken].sum(axis=1)
    close = 1e-9 * max(1.0, float(np.abs(seeds).sum()))  # sums of the same numbers differ in the last bits
    above, below = (sums >= sums[0] - close).mean(), (sums <= sums[0] + close).mean()
    return min(1.0, 2 * float(min(above, below)))


def welch(first: Floats, second: Floats, alpha: float, rate: bool) -> tuple[float, float, float]:
    """Low, high and two-sided p of Welch's test; NaN and p = 1 if the seeds of neither arm differ."""
    if rate:
        first, second = (np.concatenate([arm, [0.0, 1.0]]) for arm in (first, second))
    if not np.ptp(first) and not np.ptp(second):
        return math.nan, math.nan, 1.0
    welch_moments = moments(first[None], second[None], crossed_seeds=True)
    from scipy.special import stdtr, stdtrit  # imported here: searches without intervals do not need scipy

    mean, error, df = float(welch_moments.mean), math.sqrt(float(welch_moments.variance)), float(welch_moments.df)
    half = float(stdtrit(df, 1 - alpha / 2)) * error
    return mean - half, mean + half, 2 * float(stdtr(df, -abs(mean) / error))


def seed_difference(first: Floats, second: Floats, alpha: float, rate: bool) -> tuple[float, float, float]:
    """Low, high and p of first - second on one problem: (S,) and (S',). The ends are NaN if there is no interval: for
    one seed, and if the seeds of neither arm differ."""
    if min(len(first), len(second)) < 2:
        return math.nan, math.nan, 1.0
    mean = float(first.mean() - second.mean())
    low, high, p = welch(first, second, alpha, rate)
    exchanged = exchange_test(first, second)
    if math.isnan(low):
        return low, high, exchanged
    low, high, p = min(low, mean), max(high, mean), max(p, exchanged)
    if p > alpha + 1e-12:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high, p
