"""The first revision, whose tables tests/fixtures/base_schema has; nothing to do."""

revision = "0014"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A new database is made of islands.schema, at the newest revision."""
    raise RuntimeError("this schema is upgraded, not made")
