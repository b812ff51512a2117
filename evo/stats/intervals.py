"""Intervals of means over problems: Student's, extended to Hall's, and Wilson's for rates. For a single problem they
are over its seeds and hold for no other problem; a single problem under one seed has no interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vpo.scalarize import Floats

_Number = TypeVar("_Number", np.float64, np.int64)

CONFIDENCE = 0.95
FEWEST_SKEWED = 8
"""The skewness of fewer values is too uncertain to be allowed for."""


@dataclass(frozen=True)
class Interval:
    """A mean with its interval. low, high: NaN if there is no interval, as for a single value."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f}{self.ends('.3f')}"

    @property
    def known(self) -> bool:
        """Whether it has ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def ends(self, form: str) -> str:
        """` [0.03, 0.21]` in that format, to follow the mean; "" if there is no interval."""
        return f" [{self.low:{form}}, {self.high:{form}}]" if self.known else ""

    def as_dict(self) -> dict[str, float | None]:
        """The interval as JSON: null for a missing end."""
        ends = (self.low, self.high) if self.known else (None, None)
        return {"mean": self.mean, "low": ends[0], "high": ends[1]}


def wilson(
    rate: npt.ArrayLike, n: npt.ArrayLike, level: float = CONFIDENCE, df: npt.ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Wilson's score interval of a proportion (Wilson 1927): shares and sizes of the same shape -> (low, high).

    n: need not be whole: for dependent observations, give the effective sample size
    df: degrees of freedom if n was estimated: Student's quantile then replaces the normal one
    Raises ValueError for a share outside [0, 1] or a size that is not positive; NaN gives NaN.
    """
    from scipy.special import ndtri, stdtrit  # imported here: searches without intervals do not need scipy

    p, size = np.asarray(rate, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if ((p < 0) | (p > 1)).any() or (size <= 0).any():
        raise ValueError("a Wilson interval needs shares in [0, 1] and sizes above 0")
    square = (ndtri((1 + level) / 2) if df is None else stdtrit(np.asarray(df, np.float64), (1 + level) / 2)) ** 2
    middle = (p + square / (2 * size)) / (1 + square / size)
    half = np.sqrt(square * (p * (1 - p) / size + square / (4 * size**2))) / (1 + square / size)
    # at 0 and 1 the closed form has a rounding error
    return np.where(p == 0, 0.0, middle - half), np.where(p == 1, 1.0, middle + half)


@dataclass(frozen=True, eq=False)
class Moments:
    """A mean, its variance, and the degrees of freedom of the variance, each (...,)."""

    mean: Floats
    variance: Floats
    df: Floats


def moments(first: Floats, second: Floats | None = None, *, crossed_seeds: bool = False) -> Moments:
    """Moments of the mean of `first`, or of `first` - `second`: (P, S, ...), (P, S', ...) over the same problems.

    For nested seeds: the variance over problems, with P - 1 degrees of freedom. For crossed seeds: the variance of
    problems, plus that of each arm's seeds, less their interaction, which both include; degrees of freedom by
    Satterthwaite (1946). A single seed gives no variance of seeds, so it is treated as nested.
    """
    arms = [first] if second is None else [first, second]
    problems = len(first)
    gaps = first.mean(axis=1) - (0.0 if second is None else second.mean(axis=1))  # (P, ...)
    of_problems = _variance_of_mean(gaps)
    crossed = [arm for arm in arms if crossed_seeds and arm.shape[1] > 1]
    seeds, twice, parts = np.zeros_like(of_problems), np.zeros_like(of_problems), of_problems**2 / max(problems - 1, 1)
    for of_seeds, interaction, freedom in map(seed_variance, crossed):
        seeds, twice, parts = seeds + of_seeds, twice + interaction, parts + of_seeds**2 / freedom
    variance = np.maximum(of_problems + seeds - twice, np.maximum(of_problems, seeds))
    df = np.divide(variance**2, parts, out=np.full(variance.shape, float(max(problems - 1, 1))), where=parts > 0)
    return Moments(gaps.mean(axis=0), variance, df)


def seed_variance(arm: Floats) -> tuple[Floats, Floats, int]:
    """For two or more seeds that act on all problems, (P, S, ...): the variance of their mean; its part that is the
    interaction with problems, which the variance over problems includes too (0 for one problem); degrees of freedom."""
    problems, seeds = arm.shape[:2]
    of_seeds = _variance_of_mean(arm.mean(axis=0))
    if problems == 1:
        return of_seeds, np.zeros_like(of_seeds), seeds - 1
    residual = arm - arm.mean(axis=1, keepdims=True) - arm.mean(axis=0) + arm.mean(axis=(0, 1))
    interaction = (residual**2).sum(axis=(0, 1)) / ((problems - 1) * (seeds - 1) * problems * seeds)
    return of_seeds, np.asarray(interaction), seeds - 1


def _variance_of_mean(values: Floats) -> Floats:
    """(n, ...) independent values -> (...) the variance of their mean; 0 for a single value."""
    return np.asarray(values.var(axis=0, ddof=1) / len(values) if len(values) > 1 else np.zeros(values.shape[1:]))


def skewed(
    values: Floats, error: Floats | float, df: Floats | float, level: float = CONFIDENCE
) -> tuple[Floats, Floats, Floats]:
    """Low, high and two-sided p of the mean of independent values, (n, ...) -> (...) each: Student's interval, extended
    to that of Hall (1992, On the removal of skewness by transformation), whose cubic of t allows for skewed values.

    error, df: standard error of the mean and its degrees of freedom, (...)
    """
    from scipy.special import stdtr, stdtrit  # imported here: searches without intervals do not need scipy

    count, mean = len(values), values.mean(axis=0)
    spread = values.std(axis=0)
    flat = spread <= 1e-12 * np.abs(mean)
    skew = (((values - mean) / np.where(flat, 1.0, spread)) ** 3).mean(axis=0)
    skew = np.where(flat | (count < FEWEST_SKEWED), 0.0, skew * math.sqrt(count * (count - 1)) / max(1, count - 2))
    root, slight = math.sqrt(count), np.abs(skew) < 1e-6
    safe = np.where(slight, 1.0, skew)

    def quantile(x: Floats) -> Floats:
        """The t whose transform is x."""
        return np.where(slight, x, root * 3 / safe * (np.cbrt(1 + safe * (x / root - safe / (6 * count))) - 1))

    q = stdtrit(df, (1 + level) / 2)
    low, high = mean - error * np.maximum(q, quantile(q)), mean - error * np.minimum(-q, quantile(-q))
    t = mean / np.maximum(error, 1e-90)
    transformed = t + skew * t**2 / (3 * root) + skew**2 * t**3 / (27 * count) + skew / (6 * root)
    return low, high, np.minimum(1.0, 2 * stdtr(df, -np.minimum(np.abs(t), np.sign(t) * transformed)))


def mean_band(
    values: npt.ArrayLike, *, rate: bool = False, crossed_seeds: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Means over problems and seeds with their intervals: (P, S, ...) -> mean, low, high, each (...,).

    The interval is Student's, extended to Hall's (skewed). rate: values are in [0, 1], and the interval is Wilson's,
    which has a width at 0 and 1 too. Its sample size is that of a proportion with the same variance as these values
    together with a problem at 0 and one at 1, which are possible although they were not seen (Agresti and Coull 1998).
    The variance is at least that between seeds. For one problem the interval is over its seeds. low and high are NaN
    for one seed of one problem, for one seed that acts on all problems, and if seeds of equal value leave no width.
    """
    array = with_seeds(values)
    alone = crossed_seeds and array.shape[1] == 1
    array = by_unit(array)
    of = moments(array, crossed_seeds=crossed_seeds)
    if len(array) == 1 or alone:
        return of.mean, np.full_like(of.mean, np.nan), np.full_like(of.mean, np.nan)
    if not rate:
        means = array.mean(axis=1)
        low, high, _ = skewed(means, np.sqrt(of.variance), of.df)
        if np.shape(values)[0] == 1:  # the variance of equal values is not 0 to the last bit
            low, high = (np.where(np.ptp(means, axis=0) > 0, end, np.nan) for end in (low, high))
        return of.mean, low, high
    ends = np.broadcast_to(np.reshape([0.0, 1.0], (2,) + (1,) * (array.ndim - 1)), (2, *array.shape[1:]))
    padded = moments(np.concatenate([array, ends]), crossed_seeds=crossed_seeds)
    problems, seeds = array.shape[:2]
    noise = array.var(axis=1, ddof=1).mean(axis=0) / (problems * seeds) if seeds > 1 else 0.0
    size = padded.mean * (1 - padded.mean) / np.maximum(padded.variance, noise)
    mean = np.clip(of.mean, 0.0, 1.0)
    low, high = wilson(mean, size, df=padded.df)
    return mean, low, high


def mean_interval(values: npt.ArrayLike, *, rate: bool = False, crossed_seeds: bool = False) -> Interval:
    """The mean over problems and seeds of any metric, such as diversity: (P,) or (P, S) -> Interval; see mean_band.

    A problem with a value that is not finite under any seed is left out. Raises ValueError if no problem is left.
    """
    known = with_seeds(values)
    known = known[np.isfinite(known).all(axis=1)]
    if not len(known):
        raise ValueError("no problem has a value under every seed")
    mean, low, high = mean_band(known, rate=rate, crossed_seeds=crossed_seeds)
    return Interval(float(mean), float(low), float(high))


def by_unit(values: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """(P, S, ...) with the unit of intervals as the first axis: problems, or the seeds of a single problem."""
    return np.swapaxes(values, 0, 1) if len(values) == 1 else values


def with_seeds(values: npt.ArrayLike) -> Floats:
    """(P,) or (P, S, ...) -> (P, S, ...). Raises ValueError if there is no problem or no seed."""
    array = np.asarray(values, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim < 2 or not array.shape[0] or not array.shape[1]:
        raise ValueError(f"values of at least one problem and one seed are needed, (P,) or (P, S), not {array.shape}")
    return array
