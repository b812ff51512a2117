"""The tables of commit c96219c2, the last before a group's row had its own sums; nothing to do.

Revision 0010, the first that is known.
"""

revision = "0010"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A new database is made of islands.schema, at the newest revision."""
    raise RuntimeError("this schema is upgraded, not made")
