"""The first revision, whose tables tests/fixtures/base_schema has; nothing to do."""

revision, down_revision = "0014", None


def upgrade() -> None:
    """A new database is made of islands.schema, at the newest revision."""
    raise RuntimeError("this schema is upgraded, not made")
