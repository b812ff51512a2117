"""The tables of work on several machines; islands.db.schema has them among all the others."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from islands.db.base import Base
from islands.db.column_types import BigId


class Shard(Base):
    """A part of a run's problems that one machine searches: those whose index leaves `number` when divided by `count`.
    begun: how often it was taken up; node: where it is, or was last; owner, heartbeat: as a run's"""

    __tablename__ = "shards"

    run_id: Mapped[int] = mapped_column(BigId, ForeignKey("runs.id"), primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    count: Mapped[int]
    status: Mapped[str] = mapped_column(String(20))
    reason: Mapped[str]
    summary: Mapped[dict[str, Any]]
    node: Mapped[str]
    begun: Mapped[int]
    owner: Mapped[str | None] = mapped_column(String(400))
    heartbeat: Mapped[float | None]


class ClusterState(Base):
    """What a cluster says of its work on a run or comparison, by its name: written now and then, read by watchers."""

    __tablename__ = "cluster_states"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    state: Mapped[dict[str, Any]]
    updated: Mapped[float]
