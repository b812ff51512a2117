"""Measures of an arm's answers beyond solving: best@k, diversity, distinct reward vectors.

All arms are measured at one budget of answers, which every counted search has spent, so that arms whose iterations
differ in cost can be compared. Failed and missing answers count as fitness 0, as in an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from evo.comparison.results import Results
from evo.comparison.survival import Curve
from evo.report.load import RunReading, SearchReading
from evo.stats import LEVEL, mean_band
from vpo.metrics import diversity

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BLOCKS, FEWEST_IN_BLOCK = 20, 8
"""Blocks of iterations at most, and answers in a block at least, if there are enough."""
KS = 48
DIGITS = 6
"""Reward vectors that are equal to this many decimals count as one."""


@dataclass(frozen=True, eq=False)
class ArmMeasures:
    """One arm after `iterations`, (P problems, S seeds); NaN for a search that has done fewer.

    diversity, diversity_all: mean L1 distance between the reward vectors of two answers, of valid ones and of all
    distinct: different reward vectors among valid answers; cells: cells of the archive with an elite on any island, now
    best_at_k: over numbers of answers; None if searches stopped at their solution, because the number of answers then
        depends on their quality
    by_block: diversity of the valid answers of each block of iterations, at its last iteration; growth: distinct
        vectors so far
    """

    iterations: int
    diversity: Floats
    diversity_all: Floats
    distinct: Floats
    cells: Floats
    best_at_k: Curve | None
    by_block: Curve
    growth: Curve


def measured(
    readings: Mapping[str, Sequence[RunReading]], results: Mapping[str, Results], budget: int
) -> dict[str, ArmMeasures]:
    """Every arm at `budget` answers a search; empty if that is less than an iteration of some arm."""
    if budget < 1 or any(budget < arm.answers for arm in results.values()):
        return {}
    return {name: _measured(runs, results[name], budget) for name, runs in readings.items()}


def _measured(runs: Sequence[RunReading], result: Results, budget: int) -> ArmMeasures:
    iterations = budget // result.answers
    shape = result.solved_at.shape
    ended = result.until_solved & (result.solved_at <= result.iterations)
    there = (result.done >= iterations) | ended
    n = iterations * result.answers
    ks, blocks = spaced(n, KS), _blocks(iterations, n)
    scalars = {name: np.full(shape, np.nan) for name in ("diversity", "diversity_all", "distinct", "cells")}
    order = np.full((*shape, len(ks)), np.nan)
    by_block = np.full((*shape, len(blocks)), np.nan)
    growth = np.full((*shape, iterations), np.nan)
    ways = subset_weights(n, ks)
    for column, run in enumerate(runs):
        for row, search in enumerate(run.searches):
            if not there[row, column]:
                continue
            given, at = search.answered[search.at < iterations], search.at[search.at < iterations]
            valid = search.valid[given]
            vectors = search.rewards[given]
            scalars["diversity"][row, column] = diversity(vectors[valid])
            scalars["diversity_all"][row, column] = diversity(vectors)
            scalars["cells"][row, column] = len({cell.cell for cell in search.cells})
            growth[row, column] = _growth(vectors[valid], at[valid], iterations)
            scalars["distinct"][row, column] = growth[row, column, -1]
            order[row, column] = ways @ _padded(np.where(valid, search.fitness[given], 0.0), n)
            starts = np.searchsorted(at, [0, *blocks])
            for block in range(len(blocks)):
                inside = slice(starts[block], starts[block + 1])
                by_block[row, column, block] = diversity(vectors[inside][valid[inside]])
    return ArmMeasures(
        iterations,
        **scalars,
        best_at_k=None if result.until_solved else banded(order, ks),
        by_block=banded(by_block, blocks),
        growth=banded(growth, np.arange(1, iterations + 1)),
    )


def spaced(n: int, most: int) -> Ints:
    """Whole numbers from 1 to n, at most `most`, evenly spaced on a logarithmic scale."""
    return np.unique(np.rint(np.geomspace(1, n, most)).astype(np.int64))


def subset_weights(n: int, ks: Ints) -> Floats:
    """(K, n) weights of the order statistics: best@k is their product with n values in rising order.

    C(j, k - 1) / C(n, k) as in vpo.metrics.best_at_k, by logarithms. Thousands of searches share them.
    """
    j, k = np.arange(n, dtype=np.float64), ks[:, None].astype(np.float64)
    enough = j >= k - 1
    top = np.where(enough, j, k - 1)  # any valid value; masked below
    ways = gammaln(top + 1) - gammaln(k) - gammaln(top - k + 2)
    ways -= gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.where(enough, np.exp(ways), 0.0)


def banded(values: Floats, at: Ints, level: float = LEVEL) -> Curve:
    """(P, S, T) values at (T,) -> mean over problems with Student's band; a problem without one is left out."""
    known: Bools = np.asarray(np.isfinite(values).all(axis=-1))  # (P, S)
    with_any = known.any(axis=1)
    if not with_any.any():
        nothing = np.full(values.shape[-1], np.nan)
        return Curve(at, nothing, nothing, nothing)
    if with_any.sum() == 1:  # the band of one problem is over its seeds
        return Curve(at, *mean_band(values[known][None], level=level))
    weight = known[with_any][..., None]
    by_problem = np.where(weight, values[with_any], 0.0).sum(axis=1) / weight.sum(axis=1)  # (P', T)
    return Curve(at, *mean_band(by_problem[:, None], level=level))


def relative_best(results: Mapping[str, Results], targets: Sequence[float | None]) -> dict[str, Floats]:
    """Each arm's best fitness as a share of the target, (P, S, T), at most 1; NaN if it is not known.

    A problem without a target above 0 is measured against the best answer of any arm, if that is above 0; otherwise
    from the lowest of the best values to the highest.
    """
    cubes = {name: best_so_far(result) for name, result in results.items()}
    shares = {name: np.full_like(cube, np.nan) for name, cube in cubes.items()}
    for row, target in enumerate(targets):
        values = np.concatenate([cube[row].ravel() for cube in cubes.values()])
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        low, high = 0.0, float(values.max()) if target is None or target <= 0 else target
        if high <= 0:
            low = float(values.min())
        for name, cube in cubes.items():
            share = (cube[row] - low) / (high - low) if high > low else np.where(np.isfinite(cube[row]), 1.0, np.nan)
            shares[name][row] = np.clip(share, 0.0, 1.0)
    return shares


def best_so_far(result: Results) -> Floats:
    """(P, S, T) best fitness after each iteration; NaN after the last iteration of a search that ended unsolved."""
    assert result.best is not None
    t = np.arange(1, result.iterations + 1)
    ended = result.until_solved & (result.solved_at <= result.iterations)
    return np.where((t <= result.done[..., None]) | ended[..., None], result.best, np.nan)


def seed_mean(cube: Floats) -> Floats:
    """(P, S, T) -> (P, T): the mean over the seeds with a value."""
    known = np.isfinite(cube)
    total = np.where(known, cube, 0.0).sum(axis=1)
    mean: Floats = np.full(total.shape, np.nan)
    np.divide(total, known.sum(axis=1), out=mean, where=known.any(axis=1))
    return mean


def distinct_vectors(search: SearchReading) -> tuple[Floats, Ints]:
    """The different reward vectors of a search's valid answers, (v, d), and the number of answers with each, (v,)."""
    given = search.answered[search.valid[search.answered]]
    if not len(given):
        return np.zeros((0, search.rewards.shape[1])), np.zeros(0, dtype=np.int64)
    vectors, counts = np.unique(search.rewards[given].round(DIGITS), axis=0, return_counts=True)
    return vectors, counts


def _growth(vectors: Floats, at: Ints, iterations: int) -> Floats:
    """(iterations,) the number of different vectors after each iteration."""
    if not len(vectors):
        return np.zeros(iterations)
    _, first = np.unique(vectors.round(DIGITS), axis=0, return_index=True)  # the first answer with it
    return np.cumsum(np.bincount(at[first], minlength=iterations)).astype(np.float64)


def _padded(fitness: Floats, n: int) -> Floats:
    """n values, rising; a missing answer is 0. A search never has more answers than were requested."""
    return np.sort(np.concatenate([fitness[:n], np.zeros(max(0, n - len(fitness)))]))


def _blocks(iterations: int, answers: int) -> Ints:
    """The last iteration of each of at most BLOCKS blocks, as equal as whole iterations allow."""
    count = max(1, min(BLOCKS, iterations, answers // FEWEST_IN_BLOCK))
    return np.rint(np.linspace(0, iterations, count + 1)[1:]).astype(np.int64)
