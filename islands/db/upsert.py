"""INSERT with ON CONFLICT, which each database writes differently."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite


def insert_or(table: Table, dialect: str) -> Any:
    """The INSERT of a dialect ("sqlite", "postgresql") that supports ON CONFLICT."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # 40 ms, of which SQLite has no use

    return postgresql.insert(table)
