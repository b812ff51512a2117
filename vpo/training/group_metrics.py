"""Metrics of the groups that a training step gets, before anything is learned from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from problems.types import ScoredGroup
from vpo.training.examples import ExampleGroup


def group_metrics(
    groups: Sequence[ScoredGroup],
    fresh: Sequence[ScoredGroup],
    examples: Sequence[ExampleGroup],
    summed: Callable[[float], float],
) -> dict[str, float]:
    """Mean fitness of an answer and of a rollout's best, the sampled tokens and their mean negative log-likelihood
    (nats), and how many groups were left out.

    groups: all of the step; fresh: those that are not stale; examples: those that teach something
    summed: adds a number up over all processes
    """
    rollouts = [rollout for group in fresh for rollout in group.rollouts]
    fitness = [[answer.score.fitness for answer in rollout.answers] for rollout in rollouts]
    asked = summed(sum(max(group.answers, 1) * len(group.rollouts) for group in fresh))
    tokens = summed(sum(len(rollout.rollout.token_ids) for rollout in rollouts))
    best = summed(sum(max(row, default=0.0) for row in fitness))
    return {
        "fitness": summed(sum(map(sum, fitness))) / max(asked, 1),
        "best_of_rollout": best / max(summed(len(rollouts)), 1),
        "nll": -summed(sum(float(rollout.rollout.logprobs.sum()) for rollout in rollouts)) / max(tokens, 1),
        "tokens": float(tokens),
        "groups": float(summed(len(groups))),
        "stale": float(summed(len(groups) - len(fresh))),
        "spreadless": float(summed(len(fresh) - len(examples))),
    }
