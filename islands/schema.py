"""The tables. One prompt group is one transaction over prompt_groups, prompts, rollouts, candidates and answers: the
provenance of its candidates, the point to resume from, and a training example, written once.

The row of a group has its own sums, so that whatever a reader shows of a run is a sum or a maximum over narrow rows.
Times are seconds since 1970, UTC. Rewards, measures and features are JSON, whose decimal form keeps every float64
exactly; token ids and log-probabilities are bytes (islands.blobs).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    select,
)

REVISION = "0015"
"""Of these tables (islands.engine)."""
METADATA = MetaData()
ESCAPED = "\ue000"
"""First character (private use) of a text that had to be escaped."""


class ModelText(TypeDecorator[str]):
    """Text that a model may have written: NUL characters, which PostgreSQL refuses, and lone surrogates, which UTF-8
    has no form for, are kept exactly. Everything else is stored as it is."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or ("\x00" not in value and value.isascii()):
            return value
        if "\x00" not in value and not value.startswith(ESCAPED):
            try:
                value.encode()
                return value
            except UnicodeEncodeError:
                pass
        return ESCAPED + value.encode("unicode_escape", "surrogatepass").decode("ascii")

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None or not value.startswith(ESCAPED):
            return value
        return value[1:].encode("ascii").decode("unicode_escape")


BigId = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only in a column of type INTEGER


def define(name: str, about: str, *parts: Column[Any] | UniqueConstraint | Index) -> Table:
    """A table. about: the meaning of a row, for the reference"""
    return Table(name, METADATA, *parts, info={"about": about})


def column(name: str, *parts: Any, nullable: bool = False, **options: Any) -> Column[Any]:
    """A column, not null by default. parts: its type, its foreign key"""
    return Column(name, *parts, nullable=nullable, **options)


Runs = define(
    "runs",
    "A search, a training or an evaluation. Runs of one comparison share its name and differ in their arm.",
    column("id", BigId, primary_key=True),
    column("name", String(200), unique=True),
    column("status", String(20)),
    column("reason", ModelText),
    column("command", ModelText),
    column("seed", BigInteger),
    column("commit", ModelText),
    column("config", JSON),
    column("summary", JSON),
    column("comparison", String(200), index=True, nullable=True),
    column("arm", String(200), nullable=True),
    column("created", Double),
    column("updated", Double),
    column("owner", String(400), nullable=True),  # the writer that holds the run (islands.lock)
)

Problems = define(
    "problems",
    "A problem of a run. best and best_fitness are of its fittest valid candidate, the seeds included.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("index", BigInteger),
    column("address", ModelText),
    column("name", ModelText),
    column("objectives", JSON),
    column("target", Double, nullable=True),
    column("answer_format", String(20)),
    column("status", String(20)),
    column("message", ModelText),
    column("solved_sequence", BigInteger, nullable=True),
    column("dimensions", JSON(none_as_null=True), nullable=True),
    column("best", BigInteger, nullable=True),
    column("best_fitness", Double, nullable=True),
    column("fingerprint", String(64), nullable=True),  # of its scorer
    column("metrics", JSON(none_as_null=True), nullable=True),  # its objectives as problems.objectives has them
    UniqueConstraint("run_id", "index"),
)

ScorerChanges = define(
    "scorer_changes",
    "A problem whose scorer or data had changed when its run was resumed.",
    column("id", BigId, primary_key=True),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("before", String(64), nullable=True),
    column("after", String(64)),
    column("created", Double),
    Index("ix_scorer_changes_problem", "problem_id"),
)

PolicyVersions = define(
    "policy_versions",
    "What produced a rollout.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("version", String(400)),
    column("created", Double),
    UniqueConstraint("run_id", "version"),
)

PromptGroups = define(
    "prompt_groups",
    "G rollouts of one prompt. `sequence` is the commit order within the run, `iteration` the place within the "
    "problem; parent and inspirations are candidate ids; operator is a place in the run's policies. `answers` were "
    "requested of each rollout; `given` are all that it gave, `born` of them new candidates, `repeats` stored before; "
    "`missing` were requested and not given. scored_seconds is summed over the scorer's workers. `errors` counts "
    "failed new answers and unreadable rollouts by kind. best is the new best candidate, if the group brought one. "
    "`cells`: changes of the archive.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("sequence", BigInteger),
    column("iteration", BigInteger),
    column("island", BigInteger),
    column("operator", BigInteger),
    column("parent_id", BigInteger, nullable=True),
    column("inspirations", JSON),
    column("policy_version_id", BigId, ForeignKey("policy_versions.id")),
    column("answers", BigInteger),
    column("stream", BigInteger),
    column("seed", BigInteger),
    column("temperature", Double),
    column("top_p", Double),
    column("sampling_seconds", Double),
    column("scoring_seconds", Double),
    column("created", Double),
    # the sums, which are written once the answers are placed
    column("given", BigInteger, server_default="0"),
    column("born", BigInteger, server_default="0"),
    column("repeats", BigInteger, server_default="0"),
    column("missing", BigInteger, server_default="0"),
    column("tokens", BigInteger, server_default="0"),
    column("prompt_tokens", BigInteger, server_default="0"),
    column("cost", Double, server_default="0"),
    column("scored_seconds", Double, server_default="0"),
    column("errors", JSON(none_as_null=True), nullable=True),
    column("best", BigInteger, nullable=True),
    column("best_fitness", Double, nullable=True),
    column("cells", JSON(none_as_null=True), nullable=True),
    UniqueConstraint("run_id", "sequence"),
    Index("ix_prompt_groups_problem", "problem_id", "sequence"),
)

PromptTexts = define(
    "prompts",
    "The prompt of a group: a compressed JSON list of its system message and request; and its token ids (P,), "
    "compressed. base: the group on whose texts and ids these were packed (islands.blobs); its own have no base.",
    column("group_id", BigId, ForeignKey("prompt_groups.id"), primary_key=True, autoincrement=False),
    column("base", BigInteger, nullable=True),
    column("texts", LargeBinary),
    column("token_ids", LargeBinary),
)

Rollouts = define(
    "rollouts",
    "One sample: text, without the answers that became candidates (islands.blobs.fold); token ids (T,), packed on its "
    "prompt's; behaviour log-probabilities (T,).",
    column("id", BigId, primary_key=True),
    column("group_id", BigId, ForeignKey("prompt_groups.id")),
    column("position", BigInteger),
    column("text", ModelText),
    column("token_ids", LargeBinary),
    column("logprobs", LargeBinary),
    column("finish", String(20)),
    column("format_error", ModelText, nullable=True),
    UniqueConstraint("group_id", "position"),
)

Candidates = define(
    "candidates",
    "A distinct answer to a problem of a run, stored once. group_id is None and sequence -1 for a seed.",
    column("id", BigId, primary_key=True),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("group_id", BigId, ForeignKey("prompt_groups.id"), nullable=True),
    column("sequence", BigInteger),
    column("identity", LargeBinary),
    column("text", ModelText),
    column("rewards", JSON),
    column("fitness", Double),
    column("features", JSON),
    column("measures", JSON),  # raw values of the grid's dimensions; empty for a failed candidate
    column("feedback", ModelText),
    column("error", ModelText, nullable=True),
    column("generation", BigInteger),
    column("island", BigInteger),
    column("parent_id", BigInteger, nullable=True),
    column("created", Double),
    column("own_values", JSON(none_as_null=True), nullable=True),  # of the scorer, where the rewards are others
    UniqueConstraint("problem_id", "identity"),
    Index("ix_candidates_problem", "problem_id", "sequence"),
)

AnswerLinks = define(
    "answers",
    "The candidate that an answer of a rollout is; repeats point to the one stored first.",
    column("rollout_id", BigId, ForeignKey("rollouts.id"), primary_key=True, autoincrement=False),
    column("position", BigInteger, primary_key=True, autoincrement=False),
    column("candidate_id", BigId, ForeignKey("candidates.id")),
    column("repeat", Boolean),
    column("seconds", Double),
    Index("ix_answers_candidate", "candidate_id"),
)

Migrations = define(
    "migrations",
    "A copy from island to island after the group `sequence`. A migration that found nothing to copy leaves one row "
    "without source, target and candidate, because it too restarts the interval.",
    column("id", BigId, primary_key=True),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("sequence", BigInteger),
    column("generation", BigInteger),
    column("source", BigInteger, nullable=True),
    column("target", BigInteger, nullable=True),
    column("candidate_id", BigId, ForeignKey("candidates.id"), nullable=True),
    Index("ix_migrations_problem", "problem_id", "sequence"),
)

TrainingSteps = define(
    "training_steps",
    "One step of a trainer; policy_version_id is the version that the step produced, if it produced one.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("step", BigInteger),
    column("policy_version_id", BigId, ForeignKey("policy_versions.id"), nullable=True),
    column("stats", JSON),
    column("checkpoint", ModelText, nullable=True),
    column("created", Double),
    UniqueConstraint("run_id", "step"),
)


def of_runs(table: Table, runs: Collection[int]) -> ColumnElement[bool]:
    """The rows of a table that belong to the runs, whose ids are given."""
    problems = select(Problems.c.id).where(Problems.c.run_id.in_(runs))
    groups = select(PromptGroups.c.id).where(PromptGroups.c.run_id.in_(runs))
    rollouts = select(Rollouts.c.id).where(Rollouts.c.group_id.in_(groups))
    if table is Runs:
        return Runs.c.id.in_(runs)
    if table in (Problems, PolicyVersions, PromptGroups, TrainingSteps):
        return table.c.run_id.in_(runs)
    if table in (Candidates, Migrations, ScorerChanges):
        return table.c.problem_id.in_(problems)
    return table.c.group_id.in_(groups) if table in (PromptTexts, Rollouts) else AnswerLinks.c.rollout_id.in_(rollouts)
