"""What trained during a run, which policy versions wrote its groups, and which groups can be learned from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, case, func, literal, select

from islands.schema import AnswerLinks, Candidates, PolicyVersions, PromptGroups, Rollouts, TrainingSteps
from islands.store import Store


@dataclass(frozen=True)
class TrainingStepRecord:
    """A trainer's step; policy_version is what came out of it, if anything did."""

    step: int
    stats: dict[str, Any]
    policy_version: str | None
    checkpoint: str | None
    created: float


def training_steps(store: Store, run_id: int, after: int = -1) -> list[TrainingStepRecord]:
    """The trainer's steps beyond `after` in order."""
    step = TrainingSteps.c
    query = (
        select(step.step, step.stats, PolicyVersions.c.version, step.checkpoint, step.created)
        .outerjoin(PolicyVersions, PolicyVersions.c.id == step.policy_version_id)
        .where(step.run_id == run_id, step.step > after)
        .order_by(step.step)
    )
    return [TrainingStepRecord(*row) for row in store.rows(query)]


def checkpoints(store: Store, run_id: int) -> list[str]:
    """Where the versions that a run trained were saved, oldest first. Some may have been removed since."""
    return [step.checkpoint for step in training_steps(store, run_id) if step.checkpoint is not None]


@dataclass(frozen=True)
class VersionUse:
    """How a policy version was used: groups it wrote, from which sequence to which, and the mean fitness of an answer
    (failed ones count as what they scored); checkpoint of the step that made it."""

    version: str
    groups: int
    first: int
    last: int
    fitness: float | None
    checkpoint: str | None


def versions_used(store: Store, run_id: int) -> list[VersionUse]:
    """Every policy version that wrote a group of the run, in the order of their first groups."""
    version = PromptGroups.c.policy_version_id
    mean: Select[Any] = (
        select(version, func.avg(Candidates.c.fitness))
        .join(Rollouts, Rollouts.c.group_id == PromptGroups.c.id)
        .join(AnswerLinks, AnswerLinks.c.rollout_id == Rollouts.c.id)
        .join(Candidates, Candidates.c.id == AnswerLinks.c.candidate_id)
        .where(PromptGroups.c.run_id == run_id)
        .group_by(version)
    )
    fitness = {id: value for id, value in store.rows(mean)}
    first = func.min(PromptGroups.c.sequence)
    query = (
        select(version, PolicyVersions.c.version, func.count(), first, func.max(PromptGroups.c.sequence))
        .join(PolicyVersions, PolicyVersions.c.id == version)
        .where(PromptGroups.c.run_id == run_id)
        .group_by(version, PolicyVersions.c.version)
        .order_by(first)
    )
    step = TrainingSteps.c
    saved = select(step.policy_version_id, step.checkpoint).where(step.run_id == run_id)
    places = {id: place for id, place in store.rows(saved) if id is not None}
    return [
        VersionUse(name, groups, low, high, fitness.get(id), places.get(id))
        for id, name, groups, low, high in store.rows(query)
    ]


CHAINS, ONE_ROLLOUT = "chains of several answers", "with one rollout or none"
COLD = "sampled at temperature 0"
NUCLEUS = "sampled at top-p below 1"


class TraceRow(NamedTuple):
    """A stored group in a few numbers. rollouts: how many it has; created: seconds since 1970, UTC."""

    sequence: int
    problem_id: int
    iteration: int
    version: str
    answers: int
    created: float
    rollouts: int


@dataclass(frozen=True)
class GroupChoice:
    """The groups of a run that a method can learn from, as far as their rows show.

    upto: the last sequence
    answers: the number of answers of a rollout, None for any; chains: whether several answers teach the method
    """

    run_id: int
    upto: int
    answers: int | None = None
    chains: bool = True

    def rows(self, store: Store) -> list[TraceRow]:
        """In order of sequence."""
        group = PromptGroups.c
        columns = (group.sequence, group.problem_id, group.iteration, PolicyVersions.c.version, group.answers)
        query = (
            select(*columns, group.created, _rollouts())
            .join(PolicyVersions, PolicyVersions.c.id == group.policy_version_id)
            .where(*self._asked(), self._reason() == "")
            .order_by(group.sequence)
        )
        return [TraceRow(*row) for row in store.rows(query)]

    def left_out(self, store: Store) -> Counter[str]:
        """The other groups, by the reason, in the order in which the reasons come first."""
        reason = self._reason().label("reason")
        query = select(reason, func.count()).where(*self._asked(), self._reason() != "").group_by(reason)
        rows = store.rows(query.order_by(func.min(PromptGroups.c.sequence)))
        return Counter({str(why): int(count) for why, count in rows})

    def _asked(self) -> list[ColumnElement[bool]]:
        return [PromptGroups.c.run_id == self.run_id, PromptGroups.c.sequence <= self.upto]

    def _reason(self) -> ColumnElement[str]:
        """Why a group cannot teach the method, "" if it can."""
        group = PromptGroups.c
        whens = [
            (_rollouts() < 2, literal(ONE_ROLLOUT)),
            (group.temperature <= 0, literal(COLD)),
            (group.top_p < 1, literal(NUCLEUS)),
        ]
        if self.answers is not None:
            whens.insert(0, (group.answers != self.answers, literal(f"not of {self.answers} answers")))
        elif not self.chains:
            whens.insert(0, (group.answers > 1, literal(CHAINS)))
        return case(*whens, else_=literal(""))


def _rollouts() -> ColumnElement[int]:
    """The number of a group's rollouts."""
    rows = select(func.count()).where(Rollouts.c.group_id == PromptGroups.c.id)
    return rows.correlate(PromptGroups).scalar_subquery()
