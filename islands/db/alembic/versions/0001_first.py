"""The first schema: runs, problems, prompt groups, candidates, elites, migrations, training steps.

Revision 0001, after nothing.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

big = sa.BigInteger
row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def column(
    name: str, kind: sa.types.TypeEngine[Any] | type, *keys: sa.ForeignKey, null: bool = False
) -> sa.Column[Any]:
    return sa.Column(name, kind, *keys, nullable=null)


def number() -> sa.Column[Any]:
    return sa.Column("id", row_id, primary_key=True)


def upgrade() -> None:
    op.create_table(
        "runs",
        number(),
        column("name", sa.String(200)),
        column("status", sa.String(20)),
        column("reason", sa.Text),
        column("command", sa.Text),
        column("seed", big),
        column("commit", sa.Text),
        column("config", sa.JSON),
        column("summary", sa.JSON),
        column("comparison", sa.String(200), null=True),
        column("arm", sa.String(200), null=True),
        column("created", sa.Double),
        column("updated", sa.Double),
        column("heartbeat", sa.Double, null=True),
        column("owner", sa.String(400), null=True),
        sa.UniqueConstraint("name"),
    )
    op.create_index("ix_runs_comparison", "runs", ["comparison"])
    op.create_table(
        "problems",
        number(),
        column("run_id", row_id, sa.ForeignKey("runs.id")),
        column("index", big),
        column("address", sa.Text),
        column("name", sa.Text),
        column("objectives", sa.JSON),
        column("target", sa.Double, null=True),
        column("answer_format", sa.String(20)),
        column("status", sa.String(20)),
        column("message", sa.Text),
        column("solved_sequence", big, null=True),
        column("dimensions", sa.JSON, null=True),
        column("best", big, null=True),
        column("best_fitness", sa.Double, null=True),
        sa.UniqueConstraint("run_id", "index"),
    )
    op.create_table(
        "policy_versions",
        number(),
        column("run_id", row_id, sa.ForeignKey("runs.id")),
        column("version", sa.String(400)),
        column("address", sa.Text),
        column("parent_id", row_id, sa.ForeignKey("policy_versions.id"), null=True),
        column("created", sa.Double),
        sa.UniqueConstraint("run_id", "version"),
    )
    op.create_table(
        "prompt_groups",
        number(),
        column("run_id", row_id, sa.ForeignKey("runs.id")),
        column("problem_id", row_id, sa.ForeignKey("problems.id")),
        column("sequence", big),
        column("iteration", big),
        column("island", big),
        column("parent_id", big, null=True),
        column("inspirations", sa.JSON),
        column("user", sa.Text),
        column("system", sa.Text),
        column("prompt_ids", sa.LargeBinary),
        column("stream", big),
        column("seed", big),
        column("temperature", sa.Double),
        column("policy_version_id", row_id, sa.ForeignKey("policy_versions.id")),
        column("answers", big),
        column("sampling_seconds", sa.Double),
        column("scoring_seconds", sa.Double),
        column("created", sa.Double),
        sa.UniqueConstraint("run_id", "sequence"),
    )
    op.create_index("ix_prompt_groups_problem", "prompt_groups", ["problem_id", "sequence"])
    op.create_table(
        "rollouts",
        number(),
        column("group_id", row_id, sa.ForeignKey("prompt_groups.id")),
        column("position", big),
        column("text", sa.Text),
        column("token_ids", sa.LargeBinary),
        column("logprobs", sa.LargeBinary),
        column("finish", sa.String(20)),
        column("format_error", sa.Text, null=True),
        sa.UniqueConstraint("group_id", "position"),
    )
    op.create_table(
        "candidates",
        number(),
        column("problem_id", row_id, sa.ForeignKey("problems.id")),
        column("group_id", row_id, sa.ForeignKey("prompt_groups.id"), null=True),
        column("sequence", big),
        column("identity", sa.LargeBinary),
        column("text", sa.Text),
        column("rewards", sa.JSON),
        column("fitness", sa.Double),
        column("features", sa.JSON),
        column("measures", sa.JSON),
        column("feedback", sa.Text),
        column("error", sa.Text, null=True),
        column("generation", big),
        column("island", big),
        column("parent_id", big, null=True),
        column("created", sa.Double),
        sa.UniqueConstraint("problem_id", "identity"),
    )
    op.create_index("ix_candidates_problem", "candidates", ["problem_id", "sequence"])
    op.create_table(
        "answers",
        sa.Column("rollout_id", row_id, sa.ForeignKey("rollouts.id"), primary_key=True, autoincrement=False),
        sa.Column("position", big, primary_key=True, autoincrement=False),
        column("candidate_id", row_id, sa.ForeignKey("candidates.id")),
        column("repeat", sa.Boolean),
        column("seconds", sa.Double),
    )
    op.create_table(
        "elites",
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), primary_key=True, autoincrement=False),
        sa.Column("island", big, primary_key=True, autoincrement=False),
        sa.Column("cell", sa.String(200), primary_key=True),
        column("candidate_id", row_id, sa.ForeignKey("candidates.id")),
        column("sequence", big),
    )
    op.create_table(
        "migrations",
        number(),
        column("problem_id", row_id, sa.ForeignKey("problems.id")),
        column("sequence", big),
        column("generation", big),
        column("source", big, null=True),
        column("target", big, null=True),
        column("candidate_id", row_id, sa.ForeignKey("candidates.id"), null=True),
    )
    op.create_index("ix_migrations_problem", "migrations", ["problem_id", "sequence"])
    op.create_table(
        "training_steps",
        number(),
        column("run_id", row_id, sa.ForeignKey("runs.id")),
        column("step", big),
        column("policy_version_id", row_id, sa.ForeignKey("policy_versions.id"), null=True),
        column("stats", sa.JSON),
        column("checkpoint", sa.Text, null=True),
        column("created", sa.Double),
        sa.UniqueConstraint("run_id", "step"),
    )


def downgrade() -> None:
    for table in (
        "training_steps",
        "migrations",
        "elites",
        "answers",
        "candidates",
        "rollouts",
        "prompt_groups",
        "policy_versions",
        "problems",
        "runs",
    ):
        op.drop_table(table)
