"""The page of the database's tables, from SQLAlchemy's metadata."""

from __future__ import annotations

from markdown_table import plain, table
from sqlalchemy import Column, Table, UniqueConstraint

from islands.schema import METADATA, REVISION

INTRODUCTION = f"""# Database

This page is made from the tables themselves (`islands/schema.py`). The schema's revision is `{REVISION}`; an older
database is migrated by Alembic when it is opened for writing. Times are seconds since 1970, UTC. Rewards and features
are JSON. Token ids and log-probabilities are bytes.
"""


def database_page() -> str:
    """One section a table, in the order in which one refers to the other."""
    parts = [INTRODUCTION.strip()]
    for one in METADATA.sorted_tables:
        rows = [
            (f"`{column.name}`", _type(column), "yes" if column.nullable else "", _keys(column, one))
            for column in one.columns
        ]
        parts += [f"## {one.name}", plain(one.info["about"]), table(("column", "type", "null", "keys"), rows)]
    return "\n\n".join(parts) + "\n"


def _type(column: Column[object]) -> str:
    return str(column.type)


def _keys(column: Column[object], one: Table) -> str:
    keys = ["primary"] if column.primary_key else []
    keys += [f"[{key.column.table.name}](#{key.column.table.name}).{key.column.name}" for key in column.foreign_keys]
    for rule in one.constraints:
        if isinstance(rule, UniqueConstraint) and column in list(rule.columns):
            others = ", ".join(other.name for other in rule.columns if other is not column)
            keys.append(f"unique with {others}" if others else "unique")
    keys += ["index" for index in one.indexes if column in list(index.columns)]
    return ", ".join(dict.fromkeys(keys))
