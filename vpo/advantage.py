"""Advantages of a prompt group, one table of methods: everything that distinguishes VPO from its baselines is here.

Every estimator is a pure function of one group's rewards. It returns one number per rollout, (G,), which the loss gives
to every token of that rollout.

Shapes: G rollouts, m answers each, d objectives, K weights. `valid` (G, m) marks the answers that exist. Missing and
failed ones are worth the least of the group, and at most 0 (vpo.scalarize.with_floor). So no method ranks such an
answer above another one, and a constant added to all rewards changes no advantage but MaxRL's (while none is missing).
Single-answer methods use the first answer of each rollout. Methods of one number take the mean of the objectives:
training gives them the answer's fitness as the only one (vpo.training.examples.group_rewards).

Sources are given per function; VPO's table of baselines (arXiv 2605.22817) fixes which reward and which normaliser go
together. All have the scale of the authors' repository (github.com/ryanboldi/vpo, commit 767db79,
verl/trainer/ppo/core_algos.py and vpo/utils/vpo.py), which divides VPO's rewards by the population deviation and those
of the baselines by the sample deviation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
import numpy.typing as npt

from vpo.scalarize import Bools, Floats, set_rewards, successes, with_floor
from vpo.training import TrainingStopped

EPSILON = 1e-6
"""Added to every denominator, and the spread below which a group teaches nothing."""

WHITENING_EPSILON = 1e-8
"""Added to the variance that a batch is whitened by, as in veRL."""


@dataclass(frozen=True)
class GroupRewards:
    """One group, as every estimator receives it.

    rewards: (G, m, d), those of missing and failed answers by with_floor; valid: (G, m), the others
    weights: (K, d), the scalarizations that VPO's family shares within the group
    taste: (d,), the one random scalarization of random_weighting for this group
    goals: (K,), if reaching a goal is rewarded, the value that an answer must reach under each weight; inf if the
        archive has reached it already; else none
    solved: (G, m), the answers that solve the problem; they succeed under every weight
    pass_at: K of pass@K, the number of answers that a search spends on such a prompt; 0 = G
    """

    rewards: Floats
    valid: Bools
    weights: Floats
    taste: Floats
    goals: Floats
    solved: Bools
    pass_at: int = 0

    @classmethod
    def of(
        cls,
        rewards: npt.ArrayLike,
        valid: npt.ArrayLike | None = None,
        *,
        failed: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        taste: npt.ArrayLike | None = None,
        goals: npt.ArrayLike | None = None,
        solved: npt.ArrayLike | None = None,
        pass_at: int = 0,
    ) -> GroupRewards:
        """Fill in defaults: all answers valid, one uniform weight, the mean. valid: (G, m), the answers that exist;
        failed: (G, m), those of them that are at fault

        Raises ValueError for inconsistent shapes and for numbers that are not finite.
        """
        r = np.asarray(rewards, dtype=np.float64)
        if r.ndim != 3:
            raise ValueError(f"rewards must be (G, m, d), not {r.shape}")
        d = r.shape[2]
        v = np.ones(r.shape[:2], dtype=bool) if valid is None else np.asarray(valid, dtype=bool)
        if v.shape != r.shape[:2]:
            raise ValueError(f"valid must be {r.shape[:2]}, not {v.shape}")
        if not np.isfinite(r[v]).all():
            raise ValueError("a valid answer has a reward that is not finite")
        sound = v if failed is None else v & ~np.asarray(failed, dtype=bool)
        uniform = np.full(d, 1.0 / d)

        def rows(given: npt.ArrayLike | None, default: Floats, shape: tuple[int, ...], name: str) -> Floats:
            array = default if given is None else np.asarray(given, dtype=np.float64)
            if array.ndim != len(shape) or array.shape[-1] != d:
                raise ValueError(f"{name} must be {shape} with d = {d}, not {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds a number that is not finite")
            return array

        return cls(
            rewards=with_floor(r, v, failed),
            valid=sound,
            weights=rows(weights, uniform[None], (-1, d), "weights"),
            taste=rows(taste, uniform, (d,), "taste"),
            goals=np.zeros(0) if goals is None else np.asarray(goals, dtype=np.float64),
            solved=np.zeros_like(v) if solved is None else np.asarray(solved, dtype=bool) & sound,
            pass_at=pass_at,
        )

    @property
    def first(self) -> Floats:
        """Each rollout's first answer, (G, d)."""
        if self.rewards.shape[1] == 0:
            return np.zeros((len(self.rewards), self.rewards.shape[2]))
        return self.rewards[:, 0]


def normalise(r: Floats, *, sample: bool = False) -> Floats:
    """(r - mean) / (std + eps) over a group; zeros if std < eps. GRPO (arXiv 2402.03300).

    sample: divide by the sample deviation, as veRL does, instead of the population's: smaller by sqrt((G - 1) / G)
    """
    if r.std() < EPSILON:
        return np.zeros_like(r)
    return np.asarray((r - r.mean()) / (r.std(ddof=int(sample)) + EPSILON))


def grpo(group: GroupRewards) -> Floats:
    """The fixed scalar of the single answer, normalised in the group (arXiv 2402.03300). -> (G,)"""
    return normalise(group.first.mean(axis=1), sample=True)


def maxrl(group: GroupRewards) -> Floats:
    """(r - mean) / (mean + eps) of the fixed scalar, zeros if no answer scores (MaxRL, arXiv 2602.02710). -> (G,)

    Raises TrainingStopped for a reward below 0: a mean below 0 turns the order round, one near 0 has no scale.
    """
    r = group.first.mean(axis=1)
    if r.std() < EPSILON:
        return np.zeros_like(r)
    if r.min() < 0:
        raise TrainingStopped(
            f"maxrl divides by the group's mean reward and takes no reward below 0, and one is {r.min():.6g} (the mean "
            f"is {r.mean():.6g}); make the scorer's rewards positive, or use grpo"
        )
    return (r - r.mean()) / (r.mean() + EPSILON)


def subset_size(n: int) -> int:
    """k of max@k for a group of n: max(2, n // 2), as in the official code, but below n, since at n all leads are
    equal."""
    return min(max(2, n // 2), n - 1)


def max_at_k(group: GroupRewards) -> Floats:
    """The gradient of E[max over k of the group's n rollouts], normalised in the group. -> (G,)

    Rollout i's coefficient is C(n, k)^-1 times the sum of max(subset) over the k-subsets that hold it: the unbiased
    estimate of Bagirov et al. (2025, arXiv 2510.23393), which the official code then normalises as GRPO does. Its k is
    max(2, n // 2); it refuses groups of two, which are GRPO's here (k = 1). A group of one teaches nothing.
    """
    r = group.first.mean(axis=1)
    n = len(r)
    if n < 2 or r.std() < EPSILON:
        return np.zeros(n)
    k = subset_size(n)
    order = np.argsort(r, kind="stable")
    # among k-subsets that hold i, i is the maximum of C(i, k - 1); j > i of C(j - 1, k - 2), which i and j leave open
    led = np.array([comb(i, k - 1) for i in range(n)], dtype=np.float64) * r[order]
    joined = np.array([comb(j - 1, k - 2) if j and k > 1 else 0 for j in range(n)], dtype=np.float64) * r[order]
    coefficients = np.empty(n)
    coefficients[order] = (led + joined[::-1].cumsum()[::-1] - joined) / comb(n, k)
    return normalise(coefficients, sample=True)


def gdpo(group: GroupRewards) -> Floats:
    """Each objective normalised separately in the group, then summed (GDPO, arXiv 2601.05242). -> (G,)

    Its last step whitens the sums over the tokens of the batch (`whitening`), which needs more than one group.
    """
    return np.asarray(np.stack([normalise(column, sample=True) for column in group.first.T]).sum(axis=0))


def whitening(count: float, total: float, squares: float) -> tuple[float, float]:
    """(mean, divisor) that whiten a batch's token advantages, as veRL's masked_whiten: (A - mean) / divisor.

    count, total, squares: tokens of the batch, the sum of their advantages and of the squares. Raises ValueError for
    fewer than two tokens.
    """
    if count < 2:
        raise ValueError(f"a batch of {count:g} tokens cannot be whitened")
    mean = total / count
    variance = max(squares / count - mean * mean, 0.0) * count / (count - 1)
    return mean, sqrt(variance + WHITENING_EPSILON)


def random_weighting(group: GroupRewards) -> Floats:
    """w . r under one random taste of this group, normalised. -> (G,)"""
    return normalise(group.first @ group.taste, sample=True)


def multi_rlvr(group: GroupRewards) -> Floats:
    """The sum of the fixed scalar over the rollout's m answers, normalised. -> (G,)

    A chain holds an answer once (vpo.chain drops repeats), so copies of a good answer are not paid again.
    """
    return normalise(group.rewards.mean(axis=2).sum(axis=1), sample=True)


def vpo(group: GroupRewards) -> Floats:
    """R(S) = E_w[max_s w . r_s] over the rollout's answers, normalised (VPO, arXiv 2605.22817). -> (G,)

    If reaching goals is rewarded: the share of weights under which an answer reaches the goal.
    """
    if len(group.goals):
        return normalise(np.asarray(_successes(group).mean(axis=1)))
    return normalise(set_rewards(group.rewards, np.ones_like(group.valid), group.weights))


def _successes(group: GroupRewards) -> Bools:
    """(G, K): under which weights a rollout reaches the goal, or solves the problem, which it does under all."""
    goals = group.goals if len(group.goals) else np.full(len(group.weights), np.inf)
    reached = successes(group.rewards, group.valid, group.weights, goals)
    return np.logical_or(reached, group.solved.any(axis=1, keepdims=True))


def pass_gradient(success: Bools | Floats, k: int) -> Floats:
    """Advantages that raise pass@k, from 0/1 outcomes: (G, K) -> (G, K); 0 where all of a column are alike.

    With p the column's mean and n = G: (r - p) n ((1 - p) / (1 - 1/n))^(k - 1), the derivative of 1 - (1 - p)^k by the
    logits, scaled so that a goal that one rollout reaches counts in full, and the less the more of them do.
    """
    n = len(success)
    if n < 2:
        return np.zeros(np.shape(success))
    r = np.asarray(success, dtype=np.float64)
    p = r.mean(axis=0)
    return np.asarray((r - p) * n * ((1 - p) / (1 - 1 / n)) ** (k - 1) * (p > 0))


def pass_at_k_slope(group: GroupRewards) -> Floats:
    """The gradient of pass@K of the single answer: prompts that are solved rarely teach most. -> (G,)

    K is `pass_at`, the number of answers that a search spends on such a prompt (arXiv 2505.15201 has estimators for K
    up to the group's size; this is the plug-in one, which takes any K).
    """
    return pass_gradient(np.asarray(group.solved[:, :1].any(axis=1)), group.pass_at or len(group.rewards))


def vpo_pass_at_k(group: GroupRewards) -> Floats:
    """The mean over weights of the gradient of pass@K: goals that are reached rarely teach most. -> (G,)

    A rollout reaches the goal of a weight by any of its answers. Under weights whose goal the archive has reached
    already, only an answer that solves the problem succeeds.
    """
    return np.asarray(pass_gradient(_successes(group), group.pass_at or len(group.rewards)).mean(axis=1))


Estimator = Callable[[GroupRewards], Floats]
ONLY_HERE = ("pass_at_k", "vpo_pass_at_k")
"""Methods that other trainers cannot run: they need what a search held and ended with."""


@dataclass(frozen=True)
class Method:
    """A row of the table.

    chain: whether a rollout is a chain of m answers (else m = 1 is sampled)
    scalar: it sees only the fixed deployment scalar, never the vector
    whitened: whether the advantages are whitened over the batch
    goals: it takes a goal per weight where reaching goals is rewarded
    success: it learns from success and failure, and from no other reward
    """

    estimate: Estimator
    chain: bool
    scalar: bool = False
    whitened: bool = False
    goals: bool = False
    success: bool = False

    @property
    def solves(self) -> bool:
        """Whether reaching a goal can be what is rewarded."""
        return self.scalar or self.goals

    @property
    def about(self) -> str:
        return (self.estimate.__doc__ or "").split("\n")[0]


METHODS: dict[str, Method] = {
    "grpo": Method(grpo, chain=False, scalar=True),
    "max_at_k": Method(max_at_k, chain=False, scalar=True),
    "maxrl": Method(maxrl, chain=False, scalar=True),
    "gdpo": Method(gdpo, chain=False, whitened=True),
    "random_weighting": Method(random_weighting, chain=False),
    "multi_rlvr": Method(multi_rlvr, chain=True, scalar=True),
    "pass_at_k": Method(pass_at_k_slope, chain=False, scalar=True, success=True),
    "vpo": Method(vpo, chain=True, goals=True),
    "vpo_pass_at_k": Method(vpo_pass_at_k, chain=True, goals=True, success=True),
}


def advantages(method: str, group: GroupRewards) -> Floats:
    """The group's advantages by the name of the method. Raises ValueError for a name that is not in METHODS."""
    if method not in METHODS:
        raise ValueError(f"no training method {method!r}; there is {', '.join(METHODS)}")
    return METHODS[method].estimate(group)
