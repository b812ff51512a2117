"""The first revision, the tables of commit 883a8fdc; nothing to do."""

revision = "0013"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A new database is made of islands.schema, at the newest revision."""
    raise RuntimeError("this schema is upgraded, not made")
