"""Common parts of the tables. They use SQLAlchemy's Core: its ORM took a quarter of the time of a short search."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Index, MetaData, Table, UniqueConstraint

METADATA = MetaData()


def define(name: str, about: str, *parts: Column[Any] | UniqueConstraint | Index) -> Table:
    """A table of the schema. about: the meaning of a row, for the reference"""
    return Table(name, METADATA, *parts, info={"about": about})


def column(name: str, *parts: Any, nullable: bool = False, **options: Any) -> Column[Any]:
    """A column, not null by default. parts: its type, its foreign key"""
    return Column(name, *parts, nullable=nullable, **options)
