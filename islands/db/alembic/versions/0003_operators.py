"""The prefill of a group's answers, and the operator that was sampled.

Revision 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("prompt_groups", sa.Column("prefill", sa.Text, nullable=False, server_default=""))
    op.add_column("prompt_groups", sa.Column("operator", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("prompt_groups", "operator")
    op.drop_column("prompt_groups", "prefill")
