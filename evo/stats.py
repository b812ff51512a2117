"""Statistics of a comparison: intervals over problems, paired tests, corrections for several arms, and the verdict.

Pure numpy. Values are (P, S): P problems, the unit of every interval and test, under S seeds. Two kinds of seeds:

- By default a problem's seeds are repeats of one search by one fixed policy, independent of other problems' (nested).
  They are averaged and problems alone are resampled: the spread of the averages already holds the seeds' noise, and
  resampling seeds on top would count it twice (Davison and Hinkley, Bootstrap Methods, 1997, section 3.8).
- `crossed_seeds=True` where a seed acts on all problems at once, because it trained the policy or the policy learns
  from all problems while it searches. Then problems and seeds are both resampled (Owen 2007, "The pigeonhole
  bootstrap"); with three seeds or fewer such an interval is still too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from evo.evaluation.metrics import FEWEST_PAIRS, Difference
from vpo.metrics import Interval, bootstrap

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
SIGNIFICANCE = 0.05
RESAMPLES = 10_000
BLOCK = 512
EXACT_PAIRS = 13
"""Up to it all 2^n flips of signs are gone through; 2^13 is about RESAMPLES."""


def wilson(rate: npt.ArrayLike, n: npt.ArrayLike, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Wilson's score interval of a proportion (Wilson 1927): shares and sizes of any one shape -> (low, high).

    n need not be whole: an effective sample size keeps the interval honest where observations hang together. Raises
    ValueError for a share outside [0, 1] or a size that is not positive; NaN goes through.
    """
    p, size = np.asarray(rate, dtype=np.float64), np.asarray(n, dtype=np.float64)
    if ((p < 0) | (p > 1)).any() or (size <= 0).any():
        raise ValueError("a Wilson interval needs shares in [0, 1] and sizes above 0")
    square = NormalDist().inv_cdf((1 + level) / 2) ** 2
    middle = (p + square / (2 * size)) / (1 + square / size)
    half = np.sqrt(square * (p * (1 - p) / size + square / (4 * size**2))) / (1 + square / size)
    # at 0 and 1 the closed form misses the end by a rounding error
    return np.where(p == 0, 0.0, middle - half), np.where(p == 1, 1.0, middle + half)


def resampled_means(
    a: npt.ArrayLike, b: npt.ArrayLike | None = None, *, resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """Means of a, or of a - b, when problems and seeds are drawn again: (P, S, ...), (P, S', ...) -> (resamples, ...).

    Two levels, crossed: problems are drawn for both arms together, each arm's seeds by themselves. (P, 1) resamples
    problems only. Trailing axes, such as iterations, share the draws. Raises ValueError on shapes that do not pair.
    """
    first = _with_seeds(a)
    second = None if b is None else _with_seeds(b)
    if second is not None and (len(second) != len(first) or second.shape[2:] != first.shape[2:]):
        raise ValueError(f"a pair for every problem is needed: {first.shape} and {second.shape}")
    rng = np.random.default_rng(seed)
    means = np.empty((resamples, *first.shape[2:]))
    for start in range(0, resamples, BLOCK):
        count = min(BLOCK, resamples - start)
        problems = _draws(rng, len(first), count)
        means[start : start + count] = _weighted(first, problems, rng)
        if second is not None:
            means[start : start + count] -= _weighted(second, problems, rng)
    return means


def _draws(rng: np.random.Generator, n: int, count: int) -> Floats:
    """(count, n) weights that sum to 1: how often each of n came up among n draws."""
    return rng.multinomial(n, np.full(n, 1 / n), size=count) / n


def _weighted(values: Floats, problems: Floats, rng: np.random.Generator) -> Floats:
    """(P, S, ...) values, (R, P) weights -> (R, ...), seeds drawn here."""
    count, seeds = len(problems), values.shape[1]
    by_seed = (problems @ values.reshape(len(values), -1)).reshape(count, seeds, -1)
    return np.einsum("rs,rsk->rk", _draws(rng, seeds, count), by_seed).reshape(count, *values.shape[2:])


def mean_interval(
    values: npt.ArrayLike,
    *,
    crossed_seeds: bool = False,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The mean over problems and seeds of any figure (diversity, say): (P,) or (P, S) -> Interval.

    A problem with a value that is not finite under any seed is left out. Raises ValueError where none is left.
    """
    known = _with_seeds(values)
    known = known[np.isfinite(known).all(axis=1)]
    if not len(known):
        raise ValueError("no problem has a value under every seed")
    if not crossed_seeds:
        return bootstrap(known.mean(axis=1), level=level, resamples=resamples, seed=seed)
    return _interval(float(known.mean()), resampled_means(known, resamples=resamples, seed=seed), level)


@dataclass(frozen=True)
class TestedDifference(Difference):
    """A paired difference with the p of a test that assumes nothing of the differences' distribution.

    p: two-sided; exact McNemar for one seed of yes and no, else flips of signs over problems
    """

    __test__ = False  # not a test of pytest's
    p: float

    @property
    def shown(self) -> bool:
        """Clear of 0 by its interval, over enough problems, and by the test too: the percentile bootstrap alone calls
        4 problems to none a difference (p = .125), since it hardly ever draws none of the four."""
        return super().shown and self.p <= SIGNIFICANCE


def difference(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    crossed_seeds: bool = False,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> TestedDifference:
    """a - b over the same problems in the same order: (P,) or (P, S), (P,) or (P, S') -> TestedDifference.

    Problems with a value that is not finite, in either arm under any seed, are left out of both; `pairs` counts the
    others. With crossed seeds p speaks of these seeds alone and the interval of seeds at large; `shown` asks both.
    Raises ValueError on shapes that do not pair and where no problem is left.
    """
    first, second = _with_seeds(a), _with_seeds(b)
    if len(first) != len(second):
        raise ValueError(f"a pair for every problem is needed: {len(first)} and {len(second)} problems")
    known = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    if not known.any():
        raise ValueError("no problem has a value in both arms under every seed")
    first, second = first[known], second[known]
    gaps = first.mean(axis=1) - second.mean(axis=1)
    if crossed_seeds:
        means = resampled_means(first, second, resamples=resamples, seed=seed)
        interval = _interval(float(gaps.mean()), means, level)
    else:
        interval = bootstrap(gaps, level=level, resamples=resamples, seed=seed)
    if first.shape[1] == second.shape[1] == 1 and np.isin([first, second], (0, 1)).all():
        p = mcnemar(int((gaps > 0).sum()), int((gaps < 0).sum()))
    else:
        p = sign_flip(gaps, resamples=resamples, seed=seed)
    return TestedDifference(interval, int(known.sum()), p)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p of McNemar's test (1947): of the problems that one arm alone solved, a fair coin's tails.

    Raises ValueError for negative counts.
    """
    if only_a < 0 or only_b < 0:
        raise ValueError(f"counts of problems cannot be negative: {only_a}, {only_b}")
    n = only_a + only_b
    tail = sum(math.comb(n, k) for k in range(min(only_a, only_b) + 1))
    return min(1.0, 2 * tail / 2**n)


def sign_flip(gaps: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p of the mean of paired differences when each one's sign is a coin's: (P,) -> p (Fisher 1935).

    Exact up to EXACT_PAIRS differences that are not 0, else (1 + hits) / (1 + resamples) of random flips. Valid
    where the arms are alike on every problem. Raises ValueError for no values or any that is not finite.
    """
    values = np.asarray(gaps, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        raise ValueError("a permutation test needs at least one difference, all finite")
    values = values[values != 0]
    n = len(values)
    if not n:
        return 1.0
    observed = abs(values.sum()) - 1e-9 * np.abs(values).sum()  # sums of the same numbers may differ in the last bits
    if n <= EXACT_PAIRS:
        signs = (np.arange(2**n)[:, None] >> np.arange(n) & 1) * 2.0 - 1  # (2^n, n)
        return float((np.abs(signs @ values) >= observed).mean())
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, resamples, BLOCK):
        signs = rng.integers(0, 2, (min(BLOCK, resamples - start), n)) * 2.0 - 1
        hits += int((np.abs(signs @ values) >= observed).sum())
    return (1 + hits) / (1 + resamples)


def holm(p: npt.ArrayLike) -> Floats:
    """p-values corrected for being several, family-wise (Holm 1979): (n,) -> (n,) in the same order.

    Raises ValueError for a value outside [0, 1].
    """
    raw = np.asarray(p, dtype=np.float64)
    if raw.ndim != 1 or not ((raw >= 0) & (raw <= 1)).all():
        raise ValueError("Holm's correction needs a row of p-values, each from 0 to 1")
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * (len(raw) - np.arange(len(raw))))
    result = np.empty_like(raw)
    result[order] = np.minimum(stepped, 1.0)
    return result


def adjusted(differences: Mapping[str, TestedDifference]) -> dict[str, TestedDifference]:
    """Several arms against one, name -> difference: each p by Holm. The intervals stay those of each comparison by
    itself, so `shown` asks for both."""
    corrected = holm([one.p for one in differences.values()])
    return {name: replace(one, p=float(p)) for (name, one), p in zip(differences.items(), corrected, strict=True)}


def verdict(a_name: str, b_name: str, difference: Difference) -> str:
    """`vpo - grpo = +0.12 [0.03, 0.21]` where that is shown, else `no difference shown` with the numbers behind it."""
    interval = difference.interval
    mean, low, high = (round(x, 2) + 0.0 for x in (interval.mean, interval.low, interval.high))  # never -0.00
    numbers = f"{a_name} - {b_name} = {mean:+.2f} [{low:.2f}, {high:.2f}]"
    if difference.shown:
        return numbers
    if difference.pairs < FEWEST_PAIRS:
        numbers += f", {difference.pairs} of at least {FEWEST_PAIRS} problems"
    elif isinstance(difference, TestedDifference) and (interval.low > 0 or interval.high < 0):
        numbers += f", p = {difference.p:.2f}"  # what kept it from being shown
    return f"no difference shown ({numbers})"


def _with_seeds(values: npt.ArrayLike) -> Floats:
    """(P,) or (P, S, ...) -> (P, S, ...)."""
    array = np.asarray(values, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim < 2 or not array.shape[0] or not array.shape[1]:
        raise ValueError(f"values of at least one problem and one seed are needed, (P,) or (P, S), not {array.shape}")
    return array


def _interval(mean: float, means: Floats, level: float) -> Interval:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(mean, float(low), float(high))
