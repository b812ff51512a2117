"""The best set of k reward vectors. At the bottom of the import order because populations choose parents by it, and
commands answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ROUNDING = 1e-12
"""Values that differ by a smaller share of the largest reward are equal."""


def group_means(
    rewards: npt.ArrayLike, weights: npt.ArrayLike, groups: Sequence[Sequence[int]]
) -> npt.NDArray[np.float64]:
    """The weighted mean of each group of components: (n, d), (d,), G groups of indices -> (n, G). Groups whose weights
    are all 0 have the plain mean."""
    r, w = np.asarray(rewards, dtype=np.float64), np.asarray(weights, dtype=np.float64)

    def mean(group: list[int]) -> npt.NDArray[np.float64]:
        if len(group) == 1:
            return r[:, group[0]]  # to the last bit
        return np.asarray(np.average(r[:, group], axis=1, weights=w[group] if w[group].sum() else None))

    return np.stack([mean(list(group)) for group in groups], axis=1)


def best_set(
    rewards: npt.ArrayLike,
    k: int,
    weights: npt.ArrayLike | None = None,
    groups: Sequence[Sequence[int]] | None = None,
) -> tuple[list[int], float]:
    """At most k vectors that are worth most as a set, and its value: (n, d), (d,) -> rising places, float.

    A set is worth the mean over components of its largest one, with weights if they are given: what set_rewards gives
    under one-hot weightings. The components of a group count by their mean, so that one vector gives all of them; by
    default each component is a group. Chosen greedily (for rewards from 0 on at least 1 - 1/e of the optimum, as the
    value is submodular), then by swaps of one member until none helps; O(n d) a step. Exact for k = 1. The first place
    counts of equals, and a member that adds nothing is left out. Raises ValueError without a vector, for k < 1, and for
    numbers that are not finite.
    """
    r = np.asarray(rewards, dtype=np.float64)
    w = np.ones(r.shape[-1]) if weights is None else np.asarray(weights, dtype=np.float64)
    if r.ndim != 2 or not r.size or k < 1 or w.shape != r.shape[1:] or not np.isfinite(r).all() or w.sum() <= 0:
        raise ValueError(f"need finite rewards (n, d), k >= 1 and weights (d,), not {r.shape}, {k}, {w.shape}")
    if groups is not None:
        r, w = group_means(r, w, groups), np.array([w[list(one)].sum() for one in groups])
    w, equal = w / w.sum(), ROUNDING * max(1.0, float(np.abs(r).max()))

    def add(kept: list[int]) -> tuple[list[int], float]:
        values = np.maximum(r, r[kept].max(axis=0, initial=-np.inf)) @ w
        place = int(np.argmax(values >= values.max() - equal))
        return [*kept, place], float(values[place])

    chosen, value = add([])
    while len(chosen) < k and (more := add(chosen))[1] > value + equal:
        chosen, value = more
    improved = len(chosen) == k > 1
    while improved:
        improved = False
        for member in tuple(chosen):
            swapped = add([place for place in chosen if place != member])
            if swapped[1] > value + equal:
                (chosen, value), improved = swapped, True
    for member in sorted(chosen, reverse=True):
        fewer = [place for place in chosen if place != member]
        if fewer and float(r[fewer].max(axis=0) @ w) >= value - equal:
            chosen = fewer
    return sorted(chosen), value
