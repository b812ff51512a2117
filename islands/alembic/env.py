"""Alembic's entry point; always run from islands.engine with a connection in hand, never from a shell."""

from alembic import context

from islands.schema import METADATA

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("migrations run when Store.open is called; they have no separate connection")

# Batch mode lets SQLite, which cannot alter a column, rebuild the table instead
context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
