"""What trained during a run, and which policy versions wrote its groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from islands.db.schema import Answer, PolicyVersion, PromptGroup, Rollout, TrainingStep
from islands.db.schema import Candidate as CandidateRow
from islands.db.store import Store


@dataclass(frozen=True)
class TrainingStepRecord:
    """A trainer's step; policy_version is what came out of it, if anything did."""

    step: int
    stats: dict[str, Any]
    policy_version: str | None
    checkpoint: str | None
    created: float


def training_steps(store: Store, run_id: int, after: int = -1) -> Iterator[TrainingStepRecord]:
    """The trainer's steps beyond `after`, in order."""
    query = (
        select(
            TrainingStep.step, TrainingStep.stats, PolicyVersion.version, TrainingStep.checkpoint, TrainingStep.created
        )
        .outerjoin(PolicyVersion, PolicyVersion.id == TrainingStep.policy_version_id)
        .where(TrainingStep.run_id == run_id, TrainingStep.step > after)
        .order_by(TrainingStep.step)
    )
    with store.read() as connection:
        for row in connection.execute(query):
            yield TrainingStepRecord(*row)


def checkpoints(store: Store, run_id: int) -> list[str]:
    """Where the versions that a run trained were saved, oldest first. Some may have been removed since."""
    query = select(TrainingStep.checkpoint).where(TrainingStep.run_id == run_id, TrainingStep.checkpoint.is_not(None))
    return [str(place) for (place,) in store.rows(query.order_by(TrainingStep.step))]


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
    fitness = (
        select(PromptGroup.policy_version_id, func.avg(CandidateRow.fitness).label("fitness"))
        .join(Rollout, Rollout.group_id == PromptGroup.id)
        .join(Answer, Answer.rollout_id == Rollout.id)
        .join(CandidateRow, CandidateRow.id == Answer.candidate_id)
        .where(PromptGroup.run_id == run_id)
        .group_by(PromptGroup.policy_version_id)
        .subquery()
    )
    first = func.min(PromptGroup.sequence)
    query = (
        select(
            PolicyVersion.version,
            func.count(),
            first,
            func.max(PromptGroup.sequence),
            fitness.c.fitness,
            TrainingStep.checkpoint,
        )
        .select_from(PromptGroup)
        .join(PolicyVersion, PolicyVersion.id == PromptGroup.policy_version_id)
        .outerjoin(fitness, fitness.c.policy_version_id == PolicyVersion.id)
        .outerjoin(TrainingStep, TrainingStep.policy_version_id == PolicyVersion.id)
        .where(PromptGroup.run_id == run_id)
        .group_by(PolicyVersion.id, PolicyVersion.version, fitness.c.fitness, TrainingStep.checkpoint)
        .order_by(first)
    )
    return [VersionUse(*row) for row in store.rows(query)]
