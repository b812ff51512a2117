"""The tables. One prompt group is one transaction over prompt_groups, rollouts, candidates, answers and elites: the
provenance of its candidates, the point to resume from, and a training example, written once.

Times are seconds since 1970, UTC. Rewards, measures and features are JSON, whose decimal form keeps every float64
exactly; token ids and log-probabilities are bytes (islands.db.blobs).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Double, ForeignKey, Index, LargeBinary, String, UniqueConstraint

from islands.db.base import METADATA as METADATA
from islands.db.base import column, define
from islands.db.column_types import BigId, JsonNumbers, JsonObject, JsonTexts, ModelText
from islands.db.shard_table import ClusterState as ClusterState
from islands.db.shard_table import Shard as Shard

REVISION = "0010"
"""The newest Alembic revision; a database that has it is opened without loading Alembic, and a new one is made of
these tables, whose columns are in the order in which the revisions added them."""

Run = define(
    "runs",
    "A search, a training or an evaluation. Runs of one comparison share its name and differ in their arm.",
    column("id", BigId, primary_key=True),
    column("name", String(200), unique=True),
    column("status", String(20)),
    column("reason", ModelText),
    column("command", ModelText),
    column("seed", BigInteger),
    column("commit", ModelText),
    column("config", JsonObject),
    column("summary", JsonObject),
    column("comparison", String(200), index=True, nullable=True),
    column("arm", String(200), nullable=True),
    column("created", Double),
    column("updated", Double),
    column("heartbeat", Double, nullable=True),
    column("owner", String(400), nullable=True),  # the writer that holds the run (islands.db.lease)
    column("tags", JsonTexts, server_default="[]"),  # this and the next since 0010, hence the defaults
    column("note", ModelText, server_default=""),
)

Problem = define(
    "problems",
    "A problem of a run. best and dimensions are kept here so that a reader need not look through the candidates.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("index", BigInteger),
    column("address", ModelText),
    column("name", ModelText),
    column("objectives", JsonTexts),
    column("target", Double, nullable=True),
    column("answer_format", String(20)),
    column("status", String(20)),
    column("message", ModelText),
    column("solved_sequence", BigInteger, nullable=True),
    column("dimensions", JsonTexts(none_as_null=True), nullable=True),
    column("best", BigInteger, nullable=True),
    column("best_fitness", Double, nullable=True),
    column("fingerprint", String(64), nullable=True),  # of its scorer; None in runs from before 0005
    UniqueConstraint("run_id", "index"),
)

ScorerChange = define(
    "scorer_changes",
    "A problem whose scorer or data had changed when its run was resumed.",
    column("id", BigId, primary_key=True),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("before", String(64), nullable=True),
    column("after", String(64)),
    column("rescored", Boolean),
    column("created", Double),
    Index("ix_scorer_changes_problem", "problem_id"),
)

PolicyVersion = define(
    "policy_versions",
    "What produced a rollout: weights at an address, trained from a parent version or given from outside.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("version", String(400)),
    column("address", ModelText),
    column("parent_id", BigId, ForeignKey("policy_versions.id"), nullable=True),
    column("created", Double),
    UniqueConstraint("run_id", "version"),
)

PromptGroup = define(
    "prompt_groups",
    "G rollouts of one prompt. `sequence` is the commit order within the run, `iteration` the place within the "
    "problem; parent and inspirations are candidate ids.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("sequence", BigInteger),
    column("iteration", BigInteger),
    column("island", BigInteger),
    column("parent_id", BigInteger, nullable=True),
    column("inspirations", JsonNumbers),
    column("user", ModelText),
    column("system", ModelText),
    column("prompt_ids", LargeBinary),
    column("stream", BigInteger),
    column("seed", BigInteger),
    column("temperature", Double),
    column("policy_version_id", BigId, ForeignKey("policy_versions.id")),
    column("answers", BigInteger),
    column("sampling_seconds", Double),
    column("scoring_seconds", Double),
    column("created", Double),
    column("prefill", ModelText, server_default=""),  # this and the next since 0003, hence the defaults
    column("operator", BigInteger, server_default="0"),
    UniqueConstraint("run_id", "sequence"),
    Index("ix_prompt_groups_problem", "problem_id", "sequence"),
)

Rollout = define(
    "rollouts",
    "One sample: text, token ids (T,) and behaviour log-probabilities (T,).",
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

Candidate = define(
    "candidates",
    "A distinct answer to a problem of a run, stored once. group_id is None and sequence -1 for a seed.",
    column("id", BigId, primary_key=True),
    column("problem_id", BigId, ForeignKey("problems.id")),
    column("group_id", BigId, ForeignKey("prompt_groups.id"), nullable=True),
    column("sequence", BigInteger),
    column("identity", LargeBinary),
    column("text", ModelText),
    column("rewards", JsonNumbers),
    column("fitness", Double),
    column("features", JsonObject),
    column("measures", JsonNumbers),  # raw values of the grid's dimensions; empty for a failed candidate
    column("feedback", ModelText),
    column("error", ModelText, nullable=True),
    column("generation", BigInteger),
    column("island", BigInteger),
    column("parent_id", BigInteger, nullable=True),
    column("created", Double),
    UniqueConstraint("problem_id", "identity"),
    Index("ix_candidates_problem", "problem_id", "sequence"),
)

Answer = define(
    "answers",
    "The candidate that an answer of a rollout is; repeats point to the one stored first.",
    column("rollout_id", BigId, ForeignKey("rollouts.id"), primary_key=True, autoincrement=False),
    column("position", BigInteger, primary_key=True, autoincrement=False),
    column("candidate_id", BigId, ForeignKey("candidates.id")),
    column("repeat", Boolean),
    column("seconds", Double),
    Index("ix_answers_candidate", "candidate_id"),
)

Elite = define(
    "elites",
    "The occupant of a cell of an island's archive, as of the last stored group.",
    column("problem_id", BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False),
    column("island", BigInteger, primary_key=True, autoincrement=False),
    column("cell", String(200), primary_key=True),
    column("candidate_id", BigId, ForeignKey("candidates.id")),
    column("sequence", BigInteger),
)

Improvement = define(
    "improvements",
    "The candidate that raised its problem's best fitness with the group `sequence` (-1: a seed), so that a reader "
    "need not go through all candidates. Of several in one group the last, which is the fittest.",
    column("problem_id", BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False),
    column("sequence", BigInteger, primary_key=True, autoincrement=False),
    column("candidate_id", BigId, ForeignKey("candidates.id")),
    column("fitness", Double),
)

OperatorCount = define(
    "operator_counts",
    "Answers by operator and by the fitness of the parent shown, summed up as they are stored (islands.types).",
    column("problem_id", BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False),
    column("operator", BigInteger, primary_key=True, autoincrement=False),
    column("bin", BigInteger, primary_key=True, autoincrement=False),
    column("answers", BigInteger),
    column("better", BigInteger),
    column("copies", BigInteger),
    column("repeats", BigInteger),
    column("compared", BigInteger),
    column("kept", Double),
)

Total = define(
    "totals",
    "What a problem's committed groups have spent and brought, summed up as they are stored (islands.db.totals).",
    column("problem_id", BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False),
    column("name", ModelText, primary_key=True),
    column("value", Double),
)

Reflection = define(
    "reflections",
    "A policy's reflection on a candidate, with the group `sequence` whose prompt was the first to show it.",
    column("candidate_id", BigId, ForeignKey("candidates.id"), primary_key=True, autoincrement=False),
    column("problem_id", BigId, ForeignKey("problems.id"), index=True),
    column("sequence", BigInteger),
    column("policy_version_id", BigId, ForeignKey("policy_versions.id")),
    column("text", ModelText),
    column("tokens", BigInteger),
    column("prompt_tokens", BigInteger),
    column("created", Double),
)

Migration = define(
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

TrainingStep = define(
    "training_steps",
    "One step of a trainer; policy_version_id is the version that the step produced, if it produced one.",
    column("id", BigId, primary_key=True),
    column("run_id", BigId, ForeignKey("runs.id")),
    column("step", BigInteger),
    column("policy_version_id", BigId, ForeignKey("policy_versions.id"), nullable=True),
    column("stats", JsonObject),
    column("checkpoint", ModelText, nullable=True),
    column("created", Double),
    UniqueConstraint("run_id", "step"),
)

Import = define(
    "imports",
    "The checkpoint that a problem's first groups were imported from: its own record as it was read (JSON text, since "
    "it may hold numbers that are not finite), and the last imported group.",
    column("problem_id", BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False),
    column("source", ModelText),
    column("record", ModelText),
    column("sequence", BigInteger),
    column("created", Double),
)

ImportedProgram = define(
    "imported_programs",
    "A program of a checkpoint in the order of the import: its candidate, which copies share; the group of its "
    "iteration, None for a seed or a copy; and the rest of its data (JSON text).",
    column("problem_id", BigId, ForeignKey("problems.id"), primary_key=True, autoincrement=False),
    column("position", BigInteger, primary_key=True, autoincrement=False),
    column("name", ModelText),
    column("candidate_id", BigId, ForeignKey("candidates.id"), index=True),
    column("sequence", BigInteger, nullable=True),
    column("record", ModelText),
)
