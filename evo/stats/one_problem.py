"""Differences of two arms on one problem: seeds are all there is to tell noise from difference by, and what is said
holds for that problem alone.

The test exchanges seeds between the arms (Fisher 1935), and Welch's (1947) is beside it, as Student's is beside the
flips of signs over several problems. Rates get one seed more that solved and one that did not, in both arms (Agresti
and Caffo 2000). The interval is Welch's, drawn out to 0 where so few seeds can reject nothing.
"""

from __future__ import annotations

import math
from itertools import combinations, islice

import numpy as np

from evo.stats.intervals import Floats, moments

MOST_SPLITS = 20_000
"""Ways to exchange seeds that are gone through: those of 8 seeds in either arm are 12,870. More are drawn."""


def splits(first: int, second: int) -> int:
    """How many ways there are to give the seeds of both arms to the two."""
    return math.comb(first + second, first)


def exchange_test(first: Floats, second: Floats, *, seed: int = 0) -> float:
    """Two-sided p of the difference of means, (S,) and (S',) seeds: the share of the ways to exchange seeds between the
    arms, as they are included, that give as large a one on the side of it, twice."""
    together = np.concatenate([first, second])
    count = len(first)
    if splits(count, len(second)) <= MOST_SPLITS:
        taken = np.array(list(islice(combinations(range(len(together)), count), MOST_SPLITS)))
    else:
        rng = np.random.default_rng(seed)
        drawn = rng.permuted(np.tile(np.arange(len(together)), (MOST_SPLITS - 1, 1)), axis=1)[:, :count]
        taken = np.concatenate([np.arange(count)[None], drawn])
    sums = together[taken].sum(axis=1)
    close = 1e-9 * max(1.0, float(np.abs(together).sum()))  # sums of the same numbers differ in the last bits
    above, below = (sums >= sums[0] - close).mean(), (sums <= sums[0] + close).mean()
    return min(1.0, 2 * float(min(above, below)))


def welch(first: Floats, second: Floats, alpha: float, rate: bool) -> tuple[float, float, float]:
    """Low, high and two-sided p of Welch's test; NaN and p = 1 where the seeds of neither arm differ."""
    if rate:
        first, second = (np.concatenate([arm, [0.0, 1.0]]) for arm in (first, second))
    if not np.ptp(first) and not np.ptp(second):
        return math.nan, math.nan, 1.0
    of = moments(first[None], second[None], crossed_seeds=True)
    from scipy.special import stdtr, stdtrit  # here: a search that shows no interval is spared scipy

    mean, error, df = float(of.mean), math.sqrt(float(of.variance)), float(of.df)
    half = float(stdtrit(df, 1 - alpha / 2)) * error
    return mean - half, mean + half, 2 * float(stdtr(df, -abs(mean) / error))


def seed_difference(
    first: Floats, second: Floats, alpha: float, rate: bool, *, seed: int = 0
) -> tuple[float, float, float]:
    """Low, high and p of first - second on one problem, (S,) and (S',); NaN ends where there is no interval: under one
    seed, and where the seeds of neither arm differ."""
    if min(len(first), len(second)) < 2:
        return math.nan, math.nan, 1.0
    mean = float(first.mean() - second.mean())
    low, high, p = welch(first, second, alpha, rate)
    exchanged = exchange_test(first, second, seed=seed)
    if math.isnan(low):
        return low, high, exchanged
    low, high, p = min(low, mean), max(high, mean), max(p, exchanged)
    if p > alpha + 1e-12:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high, p
