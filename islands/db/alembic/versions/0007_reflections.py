"""A policy's reflections on a candidate, for the prompts that show the candidate as their parent.

Revision 0007, after 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "reflections",
        sa.Column("candidate_id", row_id, sa.ForeignKey("candidates.id"), primary_key=True, autoincrement=False),
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("policy_version_id", row_id, sa.ForeignKey("policy_versions.id"), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_index("ix_reflections_problem_id", "reflections", ["problem_id"])


def downgrade() -> None:
    op.drop_table("reflections")
