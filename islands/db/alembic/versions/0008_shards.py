"""The parts of a run that several machines search, each with a separate writer; and a cluster's report of its work.

Revision 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "shards",
        sa.Column("run_id", row_id, sa.ForeignKey("runs.id"), primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("summary", sa.JSON, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("begun", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.String(400), nullable=True),
        sa.Column("heartbeat", sa.Double, nullable=True),
    )
    op.create_table(
        "cluster_states",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("state", sa.JSON, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("cluster_states")
    op.drop_table("shards")
