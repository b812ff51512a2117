"""The shards of a run: parts of its problems, searched in parallel, each with one writer.

A run is divided into shards once, whatever the number of machines later. A shard's writer is the last process that took
it: the previous one, lost or only unreachable, is refused from then on, because every transaction confirms its token
(like a run's lease, which however waits for a writer that seems alive).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from islands.db.lease import Lease
from islands.db.prepared import Prepared
from islands.db.schema import ClusterState, Shard
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.errors import RunBusy, UnknownRun
from problems.redaction import redact

_RENEWAL = (
    update(Shard)
    .where(
        Shard.c.run_id == bindparam("run"), Shard.c.number == bindparam("part"), Shard.c.owner == bindparam("holder")
    )
    .values(heartbeat=bindparam("now"))
)


@dataclass(frozen=True)
class ShardRecord:
    """A shard as it is stored. status: one of RUN_STATUSES; begun: how often it was taken up; node: where, last"""

    run_id: int
    number: int
    count: int
    status: str
    reason: str
    summary: Mapping[str, Any]
    node: str
    begun: int
    heartbeat: float | None


class ShardLease(Lease):
    """The right to write to a shard; taken from any earlier writer."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Transaction]],
        forget: Callable[[Lease], None],
        renewal: Prepared,
        run_id: int,
        owner: str,
        number: int,
    ) -> None:
        super().__init__(begin, forget, renewal, run_id, owner)
        self.number = number

    def confirm(self, connection: Connection) -> None:
        values = dict(run=self.run_id, part=self.number, holder=self._owner, now=time.time())
        if self._renewal.run(connection, [values]) != 1:
            raise RunBusy(f"shard {self.number} of run {self.run_id} was given to another process")

    def _free(self, connection: Connection) -> None:
        mine = (Shard.c.run_id == self.run_id, Shard.c.number == self.number, Shard.c.owner == self._owner)
        connection.execute(update(Shard).where(*mine).values(owner=None))


def plan_shards(store: Store, run_id: int, count: int) -> int:
    """Deal a run into `count` shards, unless it was dealt before; how many it has. For the holder of its lease."""
    known = read_shards(store, run_id)
    if known:
        return known[0].count
    rows = [
        dict(run_id=run_id, number=number, count=count, status="waiting", reason="", summary={}, node="", begun=0)
        for number in range(count)
    ]
    with store.begin() as tx:
        tx.connection.execute(insert(Shard), rows)
    return count


def read_shards(store: Store, run_id: int) -> list[ShardRecord]:
    """The run's shards by number; none for a run that was never dealt out."""
    columns = [column for column in Shard.columns if column.name != "owner"]
    rows = store.rows(select(*columns).where(Shard.c.run_id == run_id).order_by(Shard.c.number))
    return [ShardRecord(**row._mapping) for row in rows]


def take_shard(store: Store, run_id: int, number: int, node: str) -> ShardLease:
    """Become the shard's only writer, replacing any other. Raises UnknownRun if the run has no such shard."""
    owner = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "token": secrets.token_hex(8)})
    with store.begin() as tx:
        values = dict(
            owner=owner, heartbeat=time.time(), node=node, status="running", reason="", begun=Shard.c.begun + 1
        )
        where = (Shard.c.run_id == run_id, Shard.c.number == number)
        if tx.connection.execute(update(Shard).where(*where).values(**values)).rowcount != 1:
            raise UnknownRun(f"run {run_id} has no shard {number}")
    renewal = store.statements.prepare(_RENEWAL)
    lease = ShardLease(store.begin, store.forget_lease, renewal, run_id, owner, number)
    store.keep_lease(lease)
    return lease


def revoke_shards(store: Store, run_id: int) -> None:
    """Take every shard from its writer: one that still lives is refused from now on."""
    with store.begin() as tx:
        tx.connection.execute(update(Shard).where(Shard.c.run_id == run_id).values(owner=None))


def write_shard(
    run_id: int, number: int, tx: Transaction, *, summary: Mapping[str, Any], status: str = "running", reason: str = ""
) -> None:
    """Put a shard's metrics so far on record, or how it ended."""
    values = dict(summary=dict(summary), status=status, reason=redact(reason))
    tx.connection.execute(update(Shard).where(Shard.c.run_id == run_id, Shard.c.number == number).values(**values))


def write_cluster_state(store: Store, name: str, state: Mapping[str, Any]) -> None:
    """Replace a cluster's report of its work on a run or comparison."""
    with store.begin() as tx:
        tx.connection.execute(delete(ClusterState).where(ClusterState.c.name == name))
        row = dict(name=name, state=dict(state), updated=time.time())
        tx.connection.execute(insert(ClusterState).values(**row))


def read_cluster_state(store: Store, name: str) -> tuple[Mapping[str, Any], float] | None:
    """The last of these, and when it was written; None for work of one machine."""
    rows = store.rows(select(ClusterState.c.state, ClusterState.c.updated).where(ClusterState.c.name == name))
    return None if not rows else (rows[0].state, rows[0].updated)
