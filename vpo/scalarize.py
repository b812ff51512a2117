"""Random scalarizations of a reward vector, and the reward of a set of answers under them.

VPO (arXiv 2605.22817) rewards a rollout's set of answers S = {s_1..s_m} with

    R(S) = E_{w ~ Dir(alpha)} [ max_{s in S} w . r(x, s) ]

so the set is worth, on average over w, its best answer under w. The expectation is estimated with K weights drawn
once per prompt group and shared by its rollouts (their common noise cancels in the group's advantage).

Shapes: G rollouts in a group, m answers each, d objectives, K weights. Rewards are in [0, 1] by convention; the code
does not need that. `valid` marks the answers that exist; `with_floor` says what the others are worth.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
WeightSampler = Literal["iid", "sobol"]
_REACHED = 1e-9
"""What a value may lack of its goal by rounding."""


def dirichlet_weights(
    count: int,
    dimensions: int,
    *,
    alpha: float = 1.0,
    seed: int | np.random.Generator = 0,
    sampler: WeightSampler = "iid",
) -> Floats:
    """K weights on the simplex, (K, d), rows summing to 1, distributed as Dir(alpha, .., alpha).

    iid: independent draws. sobol: a scrambled Sobol sequence carried to the simplex, of lower variance at equal K: for
    alpha = 1 the gaps between d - 1 sorted uniforms (Devroye 1986, ch. V.2), else normalised Gamma(alpha) quantiles.
    Raises ValueError for a count, dimension or alpha that is not positive.
    """
    if count < 1 or dimensions < 1 or not alpha > 0:
        raise ValueError(f"need count, dimensions >= 1 and alpha > 0, not {count}, {dimensions}, {alpha}")
    rng = np.random.default_rng(seed)
    if dimensions == 1:
        return np.ones((count, 1))
    if sampler == "iid":
        return rng.dirichlet(np.full(dimensions, alpha), count)
    if sampler != "sobol":
        raise ValueError(f"sampler {sampler!r} is neither iid nor sobol")
    if alpha == 1.0:
        cuts = np.sort(_sobol(count, dimensions - 1, rng), axis=1)
        edges = np.concatenate([np.zeros((count, 1)), cuts, np.ones((count, 1))], axis=1)
        return np.diff(edges, axis=1)
    from scipy.special import gammaincinv

    gammas = gammaincinv(alpha, _sobol(count, dimensions, rng))
    # a tiny alpha can underflow a whole row to 0: one corner then takes all mass, the limit of Dir(alpha -> 0)
    empty = gammas.sum(axis=1) == 0
    gammas[empty, rng.integers(0, dimensions, int(empty.sum()))] = 1.0
    return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))


def _sobol(count: int, dimensions: int, rng: np.random.Generator) -> Floats:
    """(count, dimensions) scrambled Sobol points in the open unit cube."""
    from scipy.stats import qmc

    engine = qmc.Sobol(dimensions, scramble=True, rng=rng)
    points = engine.random_base2(int(np.ceil(np.log2(max(count, 2)))))[:count]
    return np.asarray(np.clip(points, 1e-12, 1 - 1e-12))


def with_floor(rewards: npt.ArrayLike, valid: npt.ArrayLike, failed: npt.ArrayLike | None = None) -> Floats:
    """The rewards of a group, with what missing and failed answers are worth: (G, m, d), (G, m), (G, m) -> (G, m, d).

    The floor of an objective is the least reward of an answer of the group, or 0 if none is below 0. So no answer is
    worth less than no answer, under any weighting. A missing answer is worth the floor. So is a failed one where the
    floor is below 0, since its 0 would then be the best of the group; elsewhere it keeps what its scorer gave it.
    """
    v = np.asarray(valid, dtype=bool)[..., None]
    held = np.where(v, np.asarray(rewards, dtype=np.float64), 0.0)
    floor = held.min(axis=(0, 1), initial=0.0)
    at_floor = ~v if failed is None else ~v | (np.asarray(failed, dtype=bool)[..., None] & (floor < 0))
    return np.where(at_floor, floor, held)


def set_rewards(rewards: npt.ArrayLike, valid: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """R(S) of each rollout, estimated with the given weights: (G, m, d), (G, m), (K, d) -> (G,).

    Rows that are not valid are worth the group's floor (with_floor), and so is the empty set. Raises ValueError for
    shapes that do not fit or rewards not finite.
    """
    r, v, w = _check(rewards, valid, weights)
    if r.shape[1] == 0:
        return np.zeros(len(r))
    return np.asarray(_best_values(r if v.all() else with_floor(r, v), w).mean(axis=0))


def _best_values(r: Floats, w: Floats) -> Floats:
    """max_s w.r_s of each rollout under each weight: (G, m, d), (G, m), (K, d) -> (K, G), m >= 1.

    A matrix product for each place in the rollouts, and a running maximum in rows of G numbers: these fit into the
    cache, while the maximum over the second-last axis of a (G, m, K) product costs eight times that product.
    """
    places = r.swapaxes(0, 1)
    best = np.asarray(w @ places[0].T)
    product = np.empty_like(best)
    for answers in places[1:]:
        np.maximum(best, np.matmul(w, answers.T, out=product), out=best)
    return best


def reachable_goals(weights: npt.ArrayLike, ended: npt.ArrayLike, archive: npt.ArrayLike) -> Floats:
    """Per weight the best value that a search ended with, (K, d), (N, d), (A, d) -> (K,); inf where its archive has
    reached that value already."""
    w = np.asarray(weights, dtype=np.float64)
    best = (w @ np.asarray(ended, dtype=np.float64).reshape(-1, w.shape[1]).T).max(axis=1, initial=-np.inf)
    held = (w @ np.asarray(archive, dtype=np.float64).reshape(-1, w.shape[1]).T).max(axis=1, initial=-np.inf)
    return np.where((held >= best - _REACHED) | ~np.isfinite(best), np.inf, best)


def successes(rewards: npt.ArrayLike, valid: npt.ArrayLike, weights: npt.ArrayLike, goals: npt.ArrayLike) -> Bools:
    """Under which weights a rollout's best answer reaches the goal: (G, m, d), (G, m), (K, d), (K,) -> (G, K)."""
    r, v, w = _check(rewards, valid, weights)
    values = np.where(v[..., None], np.einsum("gmd,kd->gmk", r, w, optimize=True), -np.inf)
    return np.asarray(values.max(axis=1, initial=-np.inf) >= np.asarray(goals, dtype=np.float64) - _REACHED)


def _check(rewards: npt.ArrayLike, valid: npt.ArrayLike, weights: npt.ArrayLike) -> tuple[Floats, Bools, Floats]:
    r = np.asarray(rewards, dtype=np.float64)
    v = np.asarray(valid, dtype=bool)
    w = np.asarray(weights, dtype=np.float64)
    if r.ndim != 3 or v.shape != r.shape[:2] or w.ndim != 2 or w.shape[1] != r.shape[2] or len(w) == 0:
        raise ValueError(
            f"rewards (G, m, d), valid (G, m) and weights (K, d) do not fit: {r.shape}, {v.shape}, {w.shape}"
        )
    if not np.isfinite(w).all():
        raise ValueError("weights hold a number that is not finite")
    finite = np.isfinite(r)
    if finite.all():
        return r, v, w
    if not finite[v].all():
        raise ValueError("a valid answer has a reward that is not finite")
    return np.where(finite, r, 0.0), v, w
