"""The tables. One prompt group is one transaction over prompt_groups, rollouts, candidates, answers and elites: the
provenance of its candidates, the point to resume from, and a training example, written once.

Times are seconds since 1970, UTC. Rewards, measures and features are JSON, whose decimal form keeps every float64
exactly; token ids and log-probabilities are bytes (islands.db.blobs).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Boolean, ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from islands.db.base import Base as Base
from islands.db.base import table as table
from islands.db.column_types import BigId
from islands.db.shard_table import ClusterState as ClusterState
from islands.db.shard_table import Shard as Shard

REVISION = "0008"
"""The newest Alembic revision; a database that has it is opened without loading Alembic, and a new one is made of
these tables, whose columns stand in the order in which the revisions added them."""


class Run(Base):
    """A search, a training or an evaluation. Runs of one comparison share its name and differ in their arm."""

    __tablename__ = "runs"

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    status: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str]
    command: Mapped[str]
    seed: Mapped[int]
    commit: Mapped[str]
    config: Mapped[dict[str, Any]]
    summary: Mapped[dict[str, Any]]
    comparison: Mapped[str | None] = mapped_column(String(200), index=True)
    arm: Mapped[str | None] = mapped_column(String(200))
    created: Mapped[float]
    updated: Mapped[float]
    heartbeat: Mapped[float | None]
    owner: Mapped[str | None] = mapped_column(String(400))  # the writer that holds the run (islands.db.lease)


class Problem(Base):
    """A problem of a run. best and dimensions are kept here so that a reader need not look through the candidates."""

    __tablename__ = "problems"
    __table_args__ = (UniqueConstraint("run_id", "index"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    index: Mapped[int]
    address: Mapped[str]
    name: Mapped[str]
    objectives: Mapped[list[Any]]
    target: Mapped[float | None]
    answer_format: Mapped[str] = mapped_column(String(20))
    status: Mapped[str] = mapped_column(String(20))
    message: Mapped[str]
    solved_sequence: Mapped[int | None]
    dimensions: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    best: Mapped[int | None]
    best_fitness: Mapped[float | None]
    fingerprint: Mapped[str | None] = mapped_column(String(64))  # of what scores it; None in runs from before 0005


class ScorerChange(Base):
    """A problem whose scorer or data was not what it had been when its run was resumed."""

    __tablename__ = "scorer_changes"
    __table_args__ = (Index("ix_scorer_changes_problem", "problem_id"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"))
    before: Mapped[str | None] = mapped_column(String(64))
    after: Mapped[str] = mapped_column(String(64))
    rescored: Mapped[bool] = mapped_column(Boolean)
    created: Mapped[float]


class PolicyVersion(Base):
    """What produced a rollout: weights at an address, trained from a parent version or given from outside."""

    __tablename__ = "policy_versions"
    __table_args__ = (UniqueConstraint("run_id", "version"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    version: Mapped[str] = mapped_column(String(400))
    address: Mapped[str]
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("policy_versions.id"))
    created: Mapped[float]


class PromptGroup(Base):
    """G rollouts of one prompt. `sequence` is the commit order within the run, `iteration` the place within the
    problem; parent and inspirations are candidate ids."""

    __tablename__ = "prompt_groups"
    __table_args__ = (
        UniqueConstraint("run_id", "sequence"),
        Index("ix_prompt_groups_problem", "problem_id", "sequence"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"))
    sequence: Mapped[int]
    iteration: Mapped[int]
    island: Mapped[int]
    parent_id: Mapped[int | None]
    inspirations: Mapped[list[Any]]
    user: Mapped[str]
    system: Mapped[str]
    prompt_ids: Mapped[bytes]
    stream: Mapped[int]
    seed: Mapped[int]
    temperature: Mapped[float]
    policy_version_id: Mapped[int] = mapped_column(ForeignKey("policy_versions.id"))
    answers: Mapped[int]
    sampling_seconds: Mapped[float]
    scoring_seconds: Mapped[float]
    created: Mapped[float]
    prefill: Mapped[str] = mapped_column(server_default="")  # this and the next since 0003, hence the defaults
    operator: Mapped[int] = mapped_column(server_default="0")


class Rollout(Base):
    """One sample: text, token ids (T,) and behaviour log-probabilities (T,)."""

    __tablename__ = "rollouts"
    __table_args__ = (UniqueConstraint("group_id", "position"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    group_id: Mapped[int] = mapped_column(ForeignKey("prompt_groups.id"))
    position: Mapped[int]
    text: Mapped[str]
    token_ids: Mapped[bytes]
    logprobs: Mapped[bytes]
    finish: Mapped[str] = mapped_column(String(20))
    format_error: Mapped[str | None]


class Candidate(Base):
    """A distinct answer to a problem of a run, stored once. group_id is None and sequence -1 for a seed."""

    __tablename__ = "candidates"
    __table_args__ = (
        UniqueConstraint("problem_id", "identity"),
        Index("ix_candidates_problem", "problem_id", "sequence"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"))
    group_id: Mapped[int | None] = mapped_column(ForeignKey("prompt_groups.id"))
    sequence: Mapped[int]
    identity: Mapped[bytes]
    text: Mapped[str]
    rewards: Mapped[list[Any]]
    fitness: Mapped[float]
    features: Mapped[dict[str, Any]]
    measures: Mapped[list[Any]]  # raw values of the grid's dimensions; empty for a failed candidate
    feedback: Mapped[str]
    error: Mapped[str | None]
    generation: Mapped[int]
    island: Mapped[int]
    parent_id: Mapped[int | None]
    created: Mapped[float]


class Answer(Base):
    """The candidate that an answer of a rollout is; repeats point to the one stored first."""

    __tablename__ = "answers"
    __table_args__ = (Index("ix_answers_candidate", "candidate_id"),)

    rollout_id: Mapped[int] = mapped_column(BigId, ForeignKey("rollouts.id"), primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    repeat: Mapped[bool] = mapped_column(Boolean)
    seconds: Mapped[float]


class Elite(Base):
    """The occupant of a cell of an island's archive, as of the last stored group."""

    __tablename__ = "elites"

    problem_id: Mapped[int] = mapped_column(BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False)
    island: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    cell: Mapped[str] = mapped_column(String(200), primary_key=True)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    sequence: Mapped[int]


class Improvement(Base):
    """The candidate that raised its problem's best fitness with the group `sequence` (-1: a seed), so that a reader
    need not go through all candidates. Of several in one group the last, which is the fittest."""

    __tablename__ = "improvements"

    problem_id: Mapped[int] = mapped_column(BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"))
    fitness: Mapped[float]


class OperatorCount(Base):
    """Answers by operator and by the fitness of the parent shown, summed up as they are stored (islands.types)."""

    __tablename__ = "operator_counts"

    problem_id: Mapped[int] = mapped_column(BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False)
    operator: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    bin: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    answers: Mapped[int]
    better: Mapped[int]
    copies: Mapped[int]
    repeats: Mapped[int]
    compared: Mapped[int]
    kept: Mapped[float]


class Reflection(Base):
    """What a policy said that a candidate needs, with the group `sequence` whose prompt was the first to show it."""

    __tablename__ = "reflections"

    candidate_id: Mapped[int] = mapped_column(BigId, ForeignKey("candidates.id"), primary_key=True, autoincrement=False)
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"), index=True)
    sequence: Mapped[int]
    policy_version_id: Mapped[int] = mapped_column(ForeignKey("policy_versions.id"))
    text: Mapped[str]
    tokens: Mapped[int]
    prompt_tokens: Mapped[int]
    created: Mapped[float]


class Migration(Base):
    """A copy from island to island after the group `sequence`. A migration that found nothing to copy leaves one row
    without source, target and candidate, because it too restarts the interval."""

    __tablename__ = "migrations"
    __table_args__ = (Index("ix_migrations_problem", "problem_id", "sequence"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    problem_id: Mapped[int] = mapped_column(ForeignKey("problems.id"))
    sequence: Mapped[int]
    generation: Mapped[int]
    source: Mapped[int | None]
    target: Mapped[int | None]
    candidate_id: Mapped[int | None] = mapped_column(ForeignKey("candidates.id"))


class TrainingStep(Base):
    """One step of a trainer; policy_version_id is the version that the step produced, if it produced one."""

    __tablename__ = "training_steps"
    __table_args__ = (UniqueConstraint("run_id", "step"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    step: Mapped[int]
    policy_version_id: Mapped[int | None] = mapped_column(ForeignKey("policy_versions.id"))
    stats: Mapped[dict[str, Any]]
    checkpoint: Mapped[str | None]
    created: Mapped[float]


class Import(Base):
    """The checkpoint that a problem's first groups were imported from: its own record as it was read (JSON text, since
    it may hold numbers that are not finite), and the last group that stands for a part of it."""

    __tablename__ = "imports"

    problem_id: Mapped[int] = mapped_column(BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False)
    source: Mapped[str]
    record: Mapped[str]
    sequence: Mapped[int]
    created: Mapped[float]


class ImportedProgram(Base):
    """A program of a checkpoint in the order of the import: its candidate, which copies share; the group of its
    iteration, None for a seed or a copy; and what no other table holds of it (JSON text)."""

    __tablename__ = "imported_programs"

    problem_id: Mapped[int] = mapped_column(BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str]
    candidate_id: Mapped[int] = mapped_column(ForeignKey("candidates.id"), index=True)
    sequence: Mapped[int | None]
    record: Mapped[str]
