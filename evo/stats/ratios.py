"""Rates whose trials come in clusters: the share of an arm's answers with some property, over problems with unequal
numbers of answers.

A rate is the hits of all problems divided by the trials of all problems, so a problem is weighted by its trials. Its
error is that of the mean of linearised values, one for each problem and seed (Woodruff 1971), because answers to one
problem are dependent and problems are not.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evo.stats.differences import Difference, paired_difference
from evo.stats.intervals import Floats, Interval, by_unit, moments, wilson, with_seeds


def linearise(hits: Floats, trials: Floats) -> Floats:
    """(P, S) hits and trials -> (P, S) values whose mean is the rate and has the variance of the rate."""
    rate = hits.sum() / trials.sum()
    return np.asarray(rate + (hits - rate * trials) / trials.mean())


def ratio_interval(hits: npt.ArrayLike, trials: npt.ArrayLike, *, crossed_seeds: bool = False) -> Interval:
    """All hits divided by all trials, with the 95% interval over problems: (P,) or (P, S) of each -> Interval.

    hits: from 0 to `trials`, not necessarily whole; problems without a trial are left out
    For one problem the interval is over its seeds; there is none for one seed. It is Wilson's. As in
    evo.stats.mean_band, its sample size is that of a proportion with the variance of this rate together with a problem
    of only hits and one of no hits. Raises ValueError if there is no trial.
    """
    h, n = with_seeds(hits), with_seeds(trials)
    known = n.sum(axis=1) > 0
    if not known.any():
        raise ValueError("a rate needs at least one trial")
    alone = crossed_seeds and n.shape[1] == 1  # one seed that acts on all problems: its variance is unknown
    h, n = by_unit(h[known]), by_unit(n[known])
    tried = n.sum(axis=1) > 0  # some seeds of a single problem may have no trial
    h, n = h[tried], n[tried]
    mean = min(1.0, float(h.sum() / n.sum()))
    if len(n) == 1 or alone:
        return Interval(mean, math.nan, math.nan)
    ends = np.full((1, n.shape[1]), n.mean())
    padded_hits, padded = np.concatenate([h, ends, 0 * ends]), np.concatenate([n, ends, ends])
    of = moments(linearise(padded_hits, padded), crossed_seeds=crossed_seeds)
    size = of.mean * (1 - of.mean) / of.variance
    low, high = wilson(mean, size, df=of.df)
    return Interval(mean, float(low), float(high))


def ratio_difference(
    hits: npt.ArrayLike,
    trials: npt.ArrayLike,
    other_hits: npt.ArrayLike,
    other_trials: npt.ArrayLike,
    *,
    crossed_seeds: bool = False,
    comparisons: int = 1,
) -> Difference:
    """First rate minus second, over the problems that have trials in both: (P,) or (P, S) each -> Difference.

    The ends of its interval are within [-1, 1], as every difference of two rates is. Raises ValueError if there is no
    such problem.
    """
    h, n, other_h, other_n = map(with_seeds, (hits, trials, other_hits, other_trials))
    both = (n.sum(axis=1) > 0) & (other_n.sum(axis=1) > 0)
    if not both.any():
        raise ValueError("no problem has a trial of both rates")
    first, second = linearise(h[both], n[both]), linearise(other_h[both], other_n[both])
    bounded = -math.inf  # rates are, though linearised values may be below 0
    gap = paired_difference(first, second, crossed_seeds=crossed_seeds, comparisons=comparisons, least=bounded)
    low, high = np.clip([gap.interval.low, gap.interval.high], -1.0, 1.0)
    return replace(gap, interval=Interval(gap.interval.mean, float(low), float(high)))
