"""Tags and a note of each run, written by people.

Revision 0010, after 0009.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("tags", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("runs", sa.Column("note", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("runs", "note")
    op.drop_column("runs", "tags")
