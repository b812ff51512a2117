"""The tables of work on several machines; islands.db.schema has them among all the others."""

from __future__ import annotations

from sqlalchemy import BigInteger, Double, ForeignKey, String

from islands.db.base import column, define
from islands.db.column_types import BigId, JsonObject, ModelText

Shard = define(
    "shards",
    "A part of a run's problems that one machine searches: those whose index leaves `number` when divided by `count`. "
    "begun: how often it was started; node: its current or last one; owner, heartbeat: as a run's",
    column("run_id", BigId, ForeignKey("runs.id"), primary_key=True, autoincrement=False),
    column("number", BigInteger, primary_key=True, autoincrement=False),
    column("count", BigInteger),
    column("status", String(20)),
    column("reason", ModelText),
    column("summary", JsonObject),
    column("node", ModelText),
    column("begun", BigInteger),
    column("owner", String(400), nullable=True),
    column("heartbeat", Double, nullable=True),
)

ClusterState = define(
    "cluster_states",
    "A cluster's report of its work on a run or comparison, by name: updated now and then, for watchers.",
    column("name", String(200), primary_key=True),
    column("state", JsonObject),
    column("updated", Double),
)
