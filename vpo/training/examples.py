"""From scored groups to training examples: completion tokens, each with its behaviour log-probability and advantage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from problems.types import ScoredGroup
from vpo.advantage import METHODS, GroupRewards, advantages, whitening
from vpo.scalarize import Bools, Floats, dirichlet_weights, reachable_goals, with_floor
from vpo.training.config import Estimation


@dataclass(frozen=True)
class Goal:
    """The goal of an answer, if solving is rewarded.

    fitness: of an answer that solves the problem or, without a target, beats what the stored search ended with
    ended: reward vectors (N, d) that the stored search ended with; archive: (A, d), those of the prompt's archive
    """

    fitness: float
    ended: Sequence[Sequence[float]] = ()
    archive: Sequence[Sequence[float]] = ()


FindGoal = Callable[[ScoredGroup], Goal | None]


@dataclass(frozen=True)
class Example:
    """One rollout: token_ids (T,) int, behaviour (T,) nats, None of what nothing sampled, advantages (T,)."""

    token_ids: npt.NDArray[np.int32]
    behaviour: npt.NDArray[np.float32] | None
    advantages: npt.NDArray[np.float32]


@dataclass(frozen=True)
class ExampleGroup:
    """Rollouts of one prompt (P,), sampled at one temperature."""

    prompt_ids: npt.NDArray[np.int32]
    examples: tuple[Example, ...]
    temperature: float

    @property
    def tokens(self) -> int:
        return sum(len(example.token_ids) for example in self.examples)


def group_rewards(group: ScoredGroup, estimation: Estimation, goal: Goal | None = None) -> GroupRewards:
    """The group as the estimators take it. Methods of a fixed scalar see the answers' fitness as the one objective, so
    that the task's own deployment weighting counts; the others see the reward vectors."""
    answers = group.all_answers()
    d = len(answers[0].score.rewards) if answers else 1
    rewards, valid = group.rewards(d)
    fitness, failed = _fitness_and_failed(group, valid)
    solved = valid & ~failed & (fitness >= (np.inf if goal is None else goal.fitness))
    if METHODS[estimation.method].scalar and goal is not None:
        return GroupRewards.of(solved[..., None], valid, solved=solved, pass_at=estimation.pass_at)
    if METHODS[estimation.method].scalar:
        return GroupRewards.of(fitness[..., None], valid, failed=failed)
    rng = np.random.default_rng([estimation.seed, group.problem, group.sequence])
    weights = dirichlet_weights(estimation.weightings, d, alpha=estimation.alpha, seed=rng, sampler=estimation.sampler)
    taste = rng.dirichlet(np.ones(d))
    reach = None if goal is None else reachable_goals(weights, goal.ended, goal.archive)
    return GroupRewards.of(
        rewards,
        valid,
        failed=failed,
        weights=weights,
        taste=taste,
        goals=reach,
        solved=solved,
        pass_at=estimation.pass_at,
    )


def _fitness_and_failed(group: ScoredGroup, valid: Bools) -> tuple[Floats, Bools]:
    """Of every answer, (G, m): its fitness, 0 if missing; whether it is at fault."""
    fitness, failed = np.zeros(valid.shape), np.zeros_like(valid)
    for i, rollout in enumerate(group.rollouts):
        fitness[i, : len(rollout.answers)] = [answer.score.fitness for answer in rollout.answers]
        failed[i, : len(rollout.answers)] = [answer.score.error is not None for answer in rollout.answers]
    return fitness, failed


def counted_fitness(group: ScoredGroup) -> Floats:
    """The fitness of every answer that was asked for, (G, m), those that are missing or failed as training counts
    them."""
    answers = group.all_answers()
    _, valid = group.rewards(len(answers[0].score.rewards) if answers else 1)
    fitness, failed = _fitness_and_failed(group, valid)
    return with_floor(fitness[..., None], valid, failed)[..., 0]


def group_advantages(group: ScoredGroup, estimation: Estimation, goal: Goal | None = None) -> Floats:
    """One advantage per rollout, (G,).

    A rollout without tokens, such as a reply that never came, has 0 and does not count for the others: what the policy
    did not write says nothing about it.
    """
    sampled = np.array([len(scored.rollout.token_ids) > 0 for scored in group.rollouts], dtype=bool)
    credit = np.zeros(len(group.rollouts))
    if sampled.any():
        rollouts = tuple(scored for scored, came in zip(group.rollouts, sampled, strict=True) if came)
        credit[sampled] = advantages(
            estimation.method, group_rewards(replace(group, rollouts=rollouts), estimation, goal)
        )
    return credit


def example_group(group: ScoredGroup, estimation: Estimation, goal: Goal | None = None) -> ExampleGroup | None:
    """The group's training example; None if it teaches nothing (no spread, nothing sampled)."""
    credit = group_advantages(group, estimation, goal)
    if not np.any(credit):
        return None
    examples = tuple(
        Example(one.rollout.token_ids, one.rollout.logprobs, row)
        for one, row in zip(group.rollouts, token_advantages(group, credit), strict=True)
        if len(one.rollout.token_ids)
    )
    return ExampleGroup(group.rollouts[0].rollout.prompt_ids, examples, group.temperature)


def example_groups(groups: Sequence[ScoredGroup], estimation: Estimation, find_goal: FindGoal) -> list[ExampleGroup]:
    """The examples of those groups that teach something. find_goal: called for each"""
    made = (example_group(group, estimation, find_goal(group)) for group in groups)
    examples = [example for example in made if example is not None]
    if not METHODS[estimation.method].whitened:
        return examples
    return whiten(examples, sum(len(one.rollout.token_ids) for group in groups for one in group.rollouts))


def token_advantages(group: ScoredGroup, credit: Floats) -> list[npt.NDArray[np.float32]]:
    """The advantage of every token, (T,) for each rollout, from the rollouts' advantages (G,)."""
    return [
        np.broadcast_to(np.asarray(advantage, np.float32), rollout.rollout.token_ids.shape)
        for rollout, advantage in zip(group.rollouts, credit, strict=True)
    ]


def whiten(groups: Sequence[ExampleGroup], tokens: float) -> list[ExampleGroup]:
    """The batch's token advantages less their mean, over their sample deviation: the last step of official GDPO.

    tokens: of the batch; those of groups that are left out as spreadless count, with advantage 0
    """
    rows = [example.advantages.astype(np.float64) for group in groups for example in group.examples]
    total = sum(float(row.sum()) for row in rows)
    squares = sum(float(row @ row) for row in rows)
    if not squares:
        return list(groups)
    mean, divisor = whitening(tokens, total, squares)
    return [
        replace(
            group,
            examples=tuple(replace(one, advantages=(one.advantages - mean) / divisor) for one in group.examples),
        )
        for group in groups
    ]
