"""The answers to a problem that no other one beats in all objectives: the best one under any weights is among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from islands.groups import children
from islands.store import Store
from islands.types import CandidateSummary, ProblemRecord, RunRecord
from problems.answer_sets import ROUNDING
from problems.weights import weighted_mean
from vpo.metrics import pareto_mask
from vpo.scalarize import dirichlet_weights

_MOST = 500
"""Answers to a problem, over all arms; of more, those are kept that are the best under one of as many weightings."""
_SAME_FITNESS = 1e-9
"""A fitness that differs by less from the weighted mean of its rewards is this mean, computed in another order."""


class FrontAnswer(NamedTuple):
    """A stored answer. arm: its place in the comparison; run: of its search; stored: its scores"""

    arm: int
    run: RunRecord
    stored: CandidateSummary


@dataclass(frozen=True, eq=False)
class AnswerFront:
    """Of every arm the valid answers that no other one of the arm beats, one of each reward vector, and its fittest.

    answers: the fittest first, of equals the one that was stored first, in the order of arms and seeds
    weights: the problem's own, in the order of its objectives; None if the fitness is no weighted mean of the rewards,
        or the arms were searched under different ones
    left_out: answers beyond _MOST
    """

    problem: ProblemRecord
    answers: tuple[FrontAnswer, ...]
    weights: tuple[float, ...] | None
    left_out: int = 0

    @cached_property
    def equal(self) -> float:
        """Weighted means that differ by less are equal."""
        return ROUNDING * max((1.0, *(abs(reward) for one in self.answers for reward in one.stored.rewards)))


def read_valid(store: Store, searches: Iterable[tuple[int, RunRecord, int]]) -> list[FrontAnswer]:
    """Every valid answer of the searches of a problem. searches: (the arm's place, the run, the problem's id in it), by
    arm and seed"""
    return [
        FrontAnswer(arm, run, child) for arm, run, id in searches for child in children(store, id) if not child.failed
    ]


def front_of(problem: ProblemRecord, valid: Sequence[FrontAnswer]) -> AnswerFront | None:
    """The front of all valid answers; None for a problem of one objective."""
    if len(problem.objectives) < 2:
        return None
    of_search: dict[tuple[int, int], list[FrontAnswer]] = {}
    for one in valid:
        of_search.setdefault((one.arm, one.run.id), []).append(one)
    of_arm: dict[int, list[FrontAnswer]] = {}
    for (arm, _), found in of_search.items():
        of_arm.setdefault(arm, []).extend(_undominated(found))
    kept, left_out = list[FrontAnswer](), 0
    for found in map(_undominated, of_arm.values()):
        few = _best_under_some(found, _MOST // len(of_arm))
        kept += few
        left_out += len(found) - len(few)
    owns = {_own_weights(problem, one.run) for one in valid}
    weights = owns.pop() if len(owns) == 1 else None
    if weights is None or sum(weights) <= 0 or not all(_is_mean(one.stored, weights) for one in kept):
        weights = None
    return AnswerFront(problem, tuple(sorted(kept, key=lambda one: -one.stored.fitness)), weights, left_out)


def _own_weights(problem: ProblemRecord, run: RunRecord) -> tuple[float, ...]:
    """Those that the run was searched under, else those of the problem."""
    named = run.config.get("weights")
    if isinstance(named, Mapping) and any(named.get(name) for name in problem.objectives):
        return tuple(float(named.get(name, 0.0)) for name in problem.objectives)
    return tuple(one.weight for one in problem.metrics)


def _is_mean(stored: CandidateSummary, weights: Sequence[float]) -> bool:
    mean = weighted_mean(stored.rewards, weights) / sum(weights)
    return abs(mean - stored.fitness) <= _SAME_FITNESS * max(1.0, abs(stored.fitness))


def _undominated(answers: Sequence[FrontAnswer]) -> list[FrontAnswer]:
    """In their order: the first of every vector that no other one dominates, and the first of the fittest."""
    if not answers:
        return []
    rewards, fitness = _rewards(answers), [one.stored.fitness for one in answers]
    first = np.unique(rewards, axis=0, return_index=True)[1]
    mask = pareto_mask(rewards)
    kept = {int(at) for at in first if mask[at]} | {int(np.argmax(fitness))}
    return [answers[at] for at in sorted(kept)]


def _best_under_some(answers: list[FrontAnswer], most: int) -> list[FrontAnswer]:
    """All of at most `most`; of more the fittest, and those that are the best under fixed weightings."""
    if len(answers) <= most:
        return answers
    rewards = _rewards(answers)
    d = rewards.shape[1]
    weights = np.vstack([np.eye(d), dirichlet_weights(max(1, most - d - 1), d, sampler="sobol", seed=0)])
    fittest = int(np.argmax([one.stored.fitness for one in answers]))
    return [answers[at] for at in sorted({fittest, *np.argmax(rewards @ weights.T, axis=0).tolist()})]


def _rewards(answers: Sequence[FrontAnswer]) -> npt.NDArray[np.float64]:
    return np.array([one.stored.rewards for one in answers], dtype=np.float64)
