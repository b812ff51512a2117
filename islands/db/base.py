"""What the mapped tables have in common."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import JSON, BigInteger, Double, LargeBinary, Table
from sqlalchemy.orm import DeclarativeBase

from islands.db.column_types import ModelText


def table(mapped: type[Base]) -> Table:
    """The Core table of a mapped class, for bulk statements; the ORM's unit of work costs several times the insert."""
    return cast(Table, mapped.__table__)


class Base(DeclarativeBase):
    type_annotation_map = {
        dict[str, Any]: JSON,
        list[Any]: JSON,
        float: Double,
        int: BigInteger,
        str: ModelText,
        bytes: LargeBinary,
    }
