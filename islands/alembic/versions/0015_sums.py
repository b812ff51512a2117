"""The sums of a group that no view shows leave."""

from alembic import op

revision, down_revision = "0015", "0014"


def upgrade() -> None:
    """Not in batch mode: SQLite cannot make a table again that other tables refer to within a transaction."""
    for name in ("parent_bin", "better", "copies", "compared", "kept"):
        op.drop_column("prompt_groups", name)
