"""Runs made from the checkpoints of other programs: what came from where.

Revision 0002, after 0001. Two tables more; nothing that was there changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

big = sa.BigInteger
row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "imports",
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), primary_key=True, autoincrement=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("sequence", big, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
    )
    op.create_table(
        "imported_programs",
        sa.Column("problem_id", row_id, sa.ForeignKey("problems.id"), primary_key=True, autoincrement=False),
        sa.Column("position", big, primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("candidate_id", row_id, sa.ForeignKey("candidates.id"), nullable=False),
        sa.Column("sequence", big, nullable=True),
        sa.Column("record", sa.Text, nullable=False),
    )
    op.create_index("ix_imported_programs_candidate_id", "imported_programs", ["candidate_id"])


def downgrade() -> None:
    op.drop_table("imported_programs")
    op.drop_table("imports")
