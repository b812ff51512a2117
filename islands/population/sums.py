"""What a group brought, summed up when it is stored: how much it spent, and how its operator used the parent in its
prompt: how many of the answers are better, copies, repeats, and how much of the parent they keep.

Bins of a parent's fitness are quarters of the way from 0, the fitness of a failed answer, to the problem's target (to 1
if there is no target above 0); values outside are in the outermost bins. A parent that reaches the target is in a
separate bin: it cannot be improved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from islands.types import (
    AT_TARGET,
    FORMAT,
    NO_PARENT,
    QUARTERS,
    REPLIES,
    Candidate,
    GroupSums,
    Placement,
    ProblemRecord,
)
from problems.identity import share_kept
from problems.scoring import error_kind
from problems.types import ScoredGroup, prompt_tokens

_TOLERANCE = 1e-9
"""Sums of the same parts in another order differ by less."""


class Scored(Protocol):
    """The compared properties of an answer and of its parent."""

    @property
    def fitness(self) -> float: ...
    @property
    def error(self) -> str | None: ...


def fitness_bin(parent: Scored | None, target: float | None) -> int:
    """NO_PARENT, a quarter from 0 to QUARTERS - 1, or AT_TARGET."""
    if parent is None:
        return NO_PARENT
    if target is not None and parent.error is None and parent.fitness >= target:
        return AT_TARGET
    whole = target if target is not None and target > 0 else 1.0
    return next((i for i in range(QUARTERS - 1) if parent.fitness < (i + 1) / QUARTERS * whole), QUARTERS - 1)


def is_better(answer: Scored, parent: Scored) -> bool:
    """Whether it is valid, and the parent is not or is less fit."""
    return answer.error is None and (parent.error is not None or answer.fitness > parent.fitness + _TOLERANCE)


def sum_group(
    problem: ProblemRecord,
    group: ScoredGroup,
    parent: Candidate | None,
    placements: Sequence[Placement],
    best: tuple[int, float] | None,
) -> GroupSums:
    """The sums of a group that was just placed.

    parent: the one its prompt showed
    best: (candidate id, fitness) of the problem's best, if the group brought it
    """
    answers, rollouts = group.all_answers(), [scored.rollout for scored in group.rollouts]
    shown = {group.parent, *group.inspirations}
    better, shares = 0, list[float]()
    if parent is not None:
        better = sum(is_better(answer.score, parent) for answer in answers)
        compared = [share_kept(parent.text, answer.text, problem.answer_format) for answer in answers]
        shares = [share for share in compared if share is not None]
    return GroupSums(
        given=len(answers),
        born=sum(place.new for place in placements),
        repeats=sum(not place.new for place in placements),
        missing=sum(max(0, group.answers - len(scored.answers)) for scored in group.rollouts),
        tokens=sum(rollout.tokens for rollout in rollouts),
        prompt_tokens=prompt_tokens(rollouts),
        cost=sum(rollout.usage.cost for rollout in rollouts if rollout.usage is not None),
        scored_seconds=sum(answer.seconds for answer in answers),
        errors=_errors(group, placements),
        best=None if best is None else best[0],
        best_fitness=None if best is None else best[1],
        parent_bin=fitness_bin(parent, problem.target),
        better=better,
        copies=sum(place.candidate in shown for place in placements),
        compared=len(shares),
        kept=sum(shares),
    )


def _errors(group: ScoredGroup, placements: Sequence[Placement]) -> Counter[str]:
    errors = Counter[str]()
    for scored in group.rollouts:
        if (lacking := scored.unanswered) is not None:
            errors[REPLIES[lacking]] += 1
        elif not scored.answers:
            errors[FORMAT] += 1
    for answer, placement in zip(group.all_answers(), placements, strict=True):
        if placement.new and answer.score.error:
            errors[error_kind(answer.score.error)] += 1
    return errors
