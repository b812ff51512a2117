"""A scorer's own values beside the rewards that are made from them.

Revision 0012, after 0011. Of older runs only the rewards are known.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("problems", sa.Column("metrics", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("candidates", sa.Column("own_values", sa.JSON(none_as_null=True), nullable=True))
