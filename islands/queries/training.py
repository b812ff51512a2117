"""What trained during a run, and which policy versions wrote its groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from islands.db.schema import Answer, PolicyVersion, PromptGroup, Rollout, TrainingStep
from islands.db.schema import Candidate as CandidateRow
from islands.db.store import Store

_RENAMED = {"nll": "behaviour_nll", "surprisal": "policy_nll"}


def current_names(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """A step's metrics by their present names, also if an older version recorded them."""
    return {_RENAMED.get(name, name): value for name, value in metrics.items()}


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
            TrainingStep.c.step,
            TrainingStep.c.stats,
            PolicyVersion.c.version,
            TrainingStep.c.checkpoint,
            TrainingStep.c.created,
        )
        .outerjoin(PolicyVersion, PolicyVersion.c.id == TrainingStep.c.policy_version_id)
        .where(TrainingStep.c.run_id == run_id, TrainingStep.c.step > after)
        .order_by(TrainingStep.c.step)
    )
    with store.read() as connection:
        for step, stats, *rest in connection.execute(query):
            yield TrainingStepRecord(step, current_names(stats), *rest)


def checkpoints(store: Store, run_id: int) -> list[str]:
    """Where the versions that a run trained were saved, oldest first. Some may have been removed since."""
    query = select(TrainingStep.c.checkpoint).where(
        TrainingStep.c.run_id == run_id, TrainingStep.c.checkpoint.is_not(None)
    )
    return [str(place) for (place,) in store.rows(query.order_by(TrainingStep.c.step))]


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
        select(PromptGroup.c.policy_version_id, func.avg(CandidateRow.c.fitness).label("fitness"))
        .join(Rollout, Rollout.c.group_id == PromptGroup.c.id)
        .join(Answer, Answer.c.rollout_id == Rollout.c.id)
        .join(CandidateRow, CandidateRow.c.id == Answer.c.candidate_id)
        .where(PromptGroup.c.run_id == run_id)
        .group_by(PromptGroup.c.policy_version_id)
        .subquery()
    )
    first = func.min(PromptGroup.c.sequence)
    query = (
        select(
            PolicyVersion.c.version,
            func.count(),
            first,
            func.max(PromptGroup.c.sequence),
            fitness.c.fitness,
            TrainingStep.c.checkpoint,
        )
        .select_from(PromptGroup)
        .join(PolicyVersion, PolicyVersion.c.id == PromptGroup.c.policy_version_id)
        .outerjoin(fitness, fitness.c.policy_version_id == PolicyVersion.c.id)
        .outerjoin(TrainingStep, TrainingStep.c.policy_version_id == PolicyVersion.c.id)
        .where(PromptGroup.c.run_id == run_id)
        .group_by(PolicyVersion.c.id, PolicyVersion.c.version, fitness.c.fitness, TrainingStep.c.checkpoint)
        .order_by(first)
    )
    return [VersionUse(*row) for row in store.rows(query)]
