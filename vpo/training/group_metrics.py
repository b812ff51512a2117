"""Metrics of the groups that a training step gets, before anything is learned from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from problems.types import ScoredGroup
from vpo.training.examples import ExampleGroup


def group_metrics(
    groups: Sequence[ScoredGroup],
    fresh: Sequence[ScoredGroup],
    examples: Sequence[ExampleGroup],
    add_up: Callable[[float], float],
) -> dict[str, float]:
    """Mean fitness of an answer and of a rollout's best, the sampled tokens and their mean negative log-likelihood
    (nats), and how many groups were left out.

    groups: all of the step; fresh: those that are not stale; examples: those that teach something
    add_up: adds a number up over all processes
    """
    rollouts = [rollout for group in fresh for rollout in group.rollouts]
    fitness = [[answer.score.fitness for answer in rollout.answers] for rollout in rollouts]
    asked = add_up(sum(max(group.answers, 1) * len(group.rollouts) for group in fresh))
    tokens = add_up(sum(len(rollout.rollout.token_ids) for rollout in rollouts))
    best = add_up(sum(max(row, default=0.0) for row in fitness))
    return {
        "fitness": add_up(sum(map(sum, fitness))) / max(asked, 1),
        "best_of_rollout": best / max(add_up(len(rollouts)), 1),
        "nll": -add_up(sum(float(rollout.rollout.logprobs.sum()) for rollout in rollouts)) / max(tokens, 1),
        "tokens": float(tokens),
        "groups": float(add_up(len(groups))),
        "stale": float(add_up(len(groups) - len(fresh))),
        "spreadless": float(add_up(len(fresh) - len(examples))),
    }
