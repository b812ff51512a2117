"""All candidates of a run as rows, for tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import select

from islands.db.schema import Candidate as CandidateRow
from islands.db.schema import PolicyVersion, Problem, PromptGroup
from islands.db.store import Store


@dataclass(frozen=True)
class CandidateLine:
    """A distinct answer. iteration, policy_version are None for a seed, whose sequence is -1. created: seconds since
    1970, UTC"""

    problem: str
    candidate: int
    iteration: int | None
    sequence: int
    island: int
    generation: int
    parent: int | None
    policy_version: str | None
    fitness: float
    rewards: dict[str, float]
    features: dict[str, float]
    error: str | None
    feedback: str
    answer: str
    created: float


FIELDS = (
    *("problem", "objectives", "candidate", "iteration", "sequence", "island", "generation", "parent"),
    *("policy_version", "fitness", "rewards", "features", "error", "feedback", "answer", "created"),
)
"""Of the query, in its order."""


def candidates_table(store: Store, run_id: int) -> Iterator[CandidateLine]:
    """By problem, oldest first. One query."""
    query = (
        select(
            Problem.c.name,
            Problem.c.objectives,
            CandidateRow.c.id,
            PromptGroup.c.iteration,
            CandidateRow.c.sequence,
            CandidateRow.c.island,
            CandidateRow.c.generation,
            CandidateRow.c.parent_id,
            PolicyVersion.c.version,
            CandidateRow.c.fitness,
            CandidateRow.c.rewards,
            CandidateRow.c.features,
            CandidateRow.c.error,
            CandidateRow.c.feedback,
            CandidateRow.c.text,
            CandidateRow.c.created,
        )
        .join(Problem, Problem.c.id == CandidateRow.c.problem_id)
        .outerjoin(PromptGroup, PromptGroup.c.id == CandidateRow.c.group_id)
        .outerjoin(PolicyVersion, PolicyVersion.c.id == PromptGroup.c.policy_version_id)
        .where(Problem.c.run_id == run_id)
        .order_by(Problem.c.index, CandidateRow.c.id)
    )
    for row in store.rows(query):
        values = dict(zip(FIELDS, tuple(row), strict=True))
        objectives, rewards = values.pop("objectives"), values["rewards"]
        yield CandidateLine(**{**values, "rewards": dict(zip(objectives, rewards, strict=True))})
