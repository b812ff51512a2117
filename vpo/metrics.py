"""The value of a set of answers to a search: best@k, pass@k, diversity, Pareto fraction.

All are exact: order statistics instead of random subsets. Methods are compared at equal numbers of answers, so a chain
of m counts m, and a missing or failed answer counts as one of fitness 0.
"""

from __future__ import annotations

from math import comb

import numpy as np
import numpy.typing as npt

_BLOCK = 512


def pass_at_k(n: int, correct: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the chance that k of n answers, drawn without replacement, hold a correct one.

    Unbiased (Chen et al. 2021, arXiv 2107.03374). Raises ValueError for k > n or counts out of range.
    """
    if not 1 <= k <= n or not 0 <= correct <= n:
        raise ValueError(f"pass@k needs 1 <= k <= n and 0 <= c <= n, not n = {n}, c = {correct}, k = {k}")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def best_at_k(fitness: npt.ArrayLike, k: int) -> float:
    """The expected best of k among n answers, drawn without replacement: (n,) -> float.

    The j-th smallest (from 0) is the best of C(j, k - 1) of the C(n, k) subsets. So -inf counts only if all answers of
    some subset have it. Raises ValueError for k > n and for NaN.
    """
    values = np.sort(np.asarray(fitness, dtype=np.float64))
    n = len(values)
    if not 1 <= k <= n:
        raise ValueError(f"best@k needs 1 <= k <= n, not n = {n}, k = {k}")
    if np.isnan(values).any():
        raise ValueError("best@k needs numbers, and a fitness is NaN")
    possible = range(k - 1, n)  # what is the best of no subset is left out: 0 * -inf would be NaN
    ways = np.array([comb(j, k - 1) / comb(n, k) for j in possible])
    return float(ways @ values[k - 1 :])


def best_of_scalarized(rewards: npt.ArrayLike, weights: npt.ArrayLike) -> float:
    """E_w[max over the set of w . r]: (n, d), (K, d) -> float; 0 for an empty set."""
    r, w = np.asarray(rewards, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    return float((r.reshape(-1, w.shape[1]) @ w.T).max(axis=0).mean()) if len(r) else 0.0


def diversity(rewards: npt.ArrayLike) -> float:
    """Mean L1 distance of two different members of a set of reward vectors: (n, d) -> float; 0 below two.

    Failed answers are zero vectors and inflate it: give it the valid ones too, and report both. O(n log n) a column.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if len(r) < 2:
        return 0.0
    ordered = np.sort(r, axis=0)
    n = len(ordered)
    # the i-th smallest is added in i of the pairs and subtracted in n - 1 - i of them
    return float(((2 * np.arange(n) - n + 1) @ ordered).sum() / (n * (n - 1) / 2))


def pareto_mask(rewards: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """The mask of vectors that no other vector dominates: (n, d) -> (n,). Equal vectors do not dominate each other.

    A dominating vector comes later in lexicographic order. Of two components the later ones are therefore summed up by
    their largest second component, O(n log n); of more, each vector is compared with the front of the later ones,
    O(n log n) and n times the front's size.
    """
    r = np.asarray(rewards, dtype=np.float64)
    if not len(r):
        return np.ones(0, dtype=bool)
    vectors, place = np.unique(r, axis=0, return_inverse=True)  # in lexicographic order
    mask = np.zeros(len(vectors), dtype=bool)
    if vectors.shape[1] == 2 and not np.isnan(vectors).any():
        largest = np.maximum.accumulate(vectors[::-1, 1])[::-1]  # of each vector and those behind it
        mask[-1] = True
        mask[:-1] = vectors[:-1, 1] > largest[1:]
        return mask[place.reshape(-1)]
    front = vectors[:0]
    for stop in range(len(vectors), 0, -_BLOCK):  # (_BLOCK, front, d) comparisons at a time
        start = max(0, stop - _BLOCK)
        block = vectors[start:stop]
        left = np.flatnonzero(~np.any(np.all(block[:, None] <= front, axis=-1), axis=1))
        undominated = left[np.sum(np.all(block[left, None] <= block[left], axis=-1), axis=1) == 1]  # only by itself
        mask[start + undominated] = True
        front = np.concatenate([front, block[undominated]])
    return mask[place.reshape(-1)]


def pareto_fraction(rewards: npt.ArrayLike) -> float:
    """The share of a set that is not dominated within it; 0 for an empty one."""
    mask = pareto_mask(rewards)
    return float(mask.mean()) if len(mask) else 0.0
