"""What scored a problem, so that a change of it between a run and its resume is noticed, and the changes that were let
through.

Revision 0005, after 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column("problems", sa.Column("fingerprint", sa.String(64), nullable=True))
    op.create_table(
        "scorer_changes",
        sa.Column("id", row_id, primary_key=True),
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), nullable=False),
        sa.Column("before", sa.String(64), nullable=True),
        sa.Column("after", sa.String(64), nullable=False),
        sa.Column("rescored", sa.Boolean, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_index("ix_scorer_changes_problem", "scorer_changes", ["problem_id"])


def downgrade() -> None:
    op.drop_index("ix_scorer_changes_problem", "scorer_changes")
    op.drop_table("scorer_changes")
    op.drop_column("problems", "fingerprint")
