"""INSERT with ON CONFLICT, which each database has in words of its own."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite


def insert_or(table: Table, dialect: str) -> Any:
    """The INSERT of a dialect ("sqlite", "postgresql") that can be told what to do with a row that is there already."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # 40 ms, of which SQLite has no use

    return postgresql.insert(table)
