"""Rates whose trials come in clusters: how many of an arm's answers did something, over problems that gave unequally
many of them.

A rate is the hits of all problems by the trials of all, so that a problem counts by its trials. Its error is that of
the mean of linearised values, one for each problem and seed (Woodruff 1971), since answers to one problem hang together
and problems do not.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evo.stats.differences import Difference, difference
from evo.stats.intervals import LEVEL, Floats, by_unit, moments, wilson, with_seeds
from vpo.metrics import Interval


def linearised(hits: Floats, trials: Floats) -> Floats:
    """(P, S) hits and trials -> (P, S) values whose mean is the rate, and whose mean varies as the rate does."""
    rate = hits.sum() / trials.sum()
    return np.asarray(rate + (hits - rate * trials) / trials.mean())


def ratio_interval(hits: npt.ArrayLike, trials: npt.ArrayLike, *, crossed_seeds: bool = False) -> Interval:
    """All hits by all trials with the 95% interval over problems: (P,) or (P, S) of each -> Interval.

    hits: from 0 to `trials`, not necessarily whole; problems without a trial are left out
    Of one problem over its seeds; none where it has one seed.
    Wilson's with the sample size at which a proportion would vary as this rate does together with a problem
    of hits alone and one of none, as evo.stats.mean_band has it. Raises ValueError where there is no trial at all.
    """
    h, n = with_seeds(hits), with_seeds(trials)
    known = n.sum(axis=1) > 0
    if not known.any():
        raise ValueError("a rate needs at least one trial")
    h, n = by_unit(h[known]), by_unit(n[known])
    tried = n.sum(axis=1) > 0  # a problem's seeds may have none
    h, n = h[tried], n[tried]
    mean = min(1.0, float(h.sum() / n.sum()))
    if len(n) == 1:
        return Interval(mean, math.nan, math.nan)
    ends = np.full((1, n.shape[1]), n.mean())
    padded_hits, padded = np.concatenate([h, ends, 0 * ends]), np.concatenate([n, ends, ends])
    of = moments(linearised(padded_hits, padded), crossed_seeds=crossed_seeds)
    size = of.mean * (1 - of.mean) / of.variance
    low, high = wilson(mean, size, LEVEL, of.df)
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
    """First rate minus second, of the problems that have trials in both: (P,) or (P, S) each -> Difference.

    Its interval's ends lie within [-1, 1], as every difference of two rates does. Raises ValueError where there is no
    such problem.
    """
    h, n, other_h, other_n = map(with_seeds, (hits, trials, other_hits, other_trials))
    both = (n.sum(axis=1) > 0) & (other_n.sum(axis=1) > 0)
    if not both.any():
        raise ValueError("no problem has a trial of both rates")
    first, second = linearised(h[both], n[both]), linearised(other_h[both], other_n[both])
    found = difference(first, second, crossed_seeds=crossed_seeds, comparisons=comparisons)
    low, high = np.clip([found.interval.low, found.interval.high], -1.0, 1.0)
    return replace(found, interval=Interval(found.interval.mean, float(low), float(high)))
