"""What the tables have in common. They are of SQLAlchemy's Core: a quarter of what a short search took was its ORM."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, MetaData, Table, UniqueConstraint

METADATA = MetaData()


def define(name: str, about: str, *parts: Column[Any] | UniqueConstraint | Index) -> Table:
    """A table of the schema. about: what a row is, for the reference"""
    return Table(name, METADATA, *parts, info={"about": about})


def column(name: str, *parts: Any, nullable: bool = False, **options: Any) -> Column[Any]:
    """A column that every row has a value in, unless it is said to be nullable. parts: its type, its foreign key"""
    return Column(name, *parts, nullable=nullable, **options)
