"""One writer a run: who holds it, whether that writer still lives, and its heartbeat."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from islands.db.prepared import Prepared
from islands.db.schema import Run
from islands.db.transaction import Transaction
from islands.errors import RunBusy, UnknownRun

BEAT_SECONDS = 15.0
STALE_SECONDS = 120.0
"""A writer on another machine that has not been heard of for this long counts as dead."""
RENEWAL = (
    update(Run)
    .where(Run.c.id == bindparam("run"), Run.c.owner == bindparam("holder"))
    .values(heartbeat=bindparam("now"), updated=bindparam("now"))
)
"""Every transaction begins with it."""


def process_start(pid: int) -> str | None:
    """A value that changes when a pid is used again; None if there is no such process or no way to know."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None


def _is_here(owner: dict[str, Any]) -> bool:
    return bool(owner["host"] == socket.gethostname() and owner["boot"] == _boot())


def _describe(owner: dict[str, Any], heartbeat: float | None, now: float) -> str:
    """The writer of a run, and a remedy; raised if that writer seems alive."""
    pid, host = owner["pid"], owner["host"]
    if _is_here(owner):
        return f"is being written by process {pid} on this machine ({host}): let it end, or stop it by kill {pid}"
    silent = max(0.0, now - (heartbeat or now))
    return (
        f"is being written by process {pid} on {host}, heard of {silent:.0f} s ago: let it end, or stop it there; "
        f"if it is gone, the run is free in {STALE_SECONDS - silent:.0f} s"
    )


def _lives(owner: dict[str, Any], heartbeat: float | None, now: float) -> bool:
    if not _is_here(owner):
        return heartbeat is not None and now - heartbeat < STALE_SECONDS
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, so it exists
    return owner["start"] is None or owner["start"] == process_start(owner["pid"])


LOST = "its process is gone; evo resume continues it"
"""The reason of a run whose writer died without recording how it ended, which is shown as interrupted."""


def is_lost(status: str, owner: str | None, heartbeat: float | None) -> bool:
    """Whether a run that is stored as running has lost its writer, as far as is known. owner: as in the run's row"""
    return status == "running" and owner is not None and not _lives(json.loads(owner), heartbeat, time.time())


def _boot() -> str:
    """Distinguishes two machines, containers included, with the same host name."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + namespace
    except OSError:
        return ""


class Lease:
    """The right to write to a run, kept alive by a thread that beats every BEAT_SECONDS; a context manager.

    Every transaction of the store confirms it, so that a writer which was taken for dead (a suspended machine) cannot
    add to a run that another has taken over.
    """

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Transaction]],
        forget: Callable[[Lease], None],
        renewal: Prepared,
        run_id: int,
        owner: str,
    ) -> None:
        """begin: a transaction of the store; forget: called with this when it is released; renewal: RENEWAL."""
        self.run_id = run_id
        self._begin, self._forget, self._renewal = begin, forget, renewal
        self._owner = owner
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat of run {run_id}", daemon=True)

    @classmethod
    def take(
        cls,
        begin: Callable[[], AbstractContextManager[Transaction]],
        forget: Callable[[Lease], None],
        renewal: Prepared,
        run_id: int,
        take_over: bool = False,
    ) -> Lease:
        """Raises RunBusy while another live process holds the run, unless it is to be taken over; UnknownRun for an id
        that is none."""
        mine = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "start": process_start(os.getpid()),
            "boot": _boot(),
            "token": secrets.token_hex(8),
        }
        owner = json.dumps(mine)
        with begin() as tx:
            query = select(Run.c.name, Run.c.owner, Run.c.heartbeat).where(Run.c.id == run_id).with_for_update()
            row = tx.connection.execute(query).first()
            if row is None:
                raise UnknownRun(f"there is no run with the id {run_id}")
            now = time.time()
            if row.owner is not None and not take_over:
                held = json.loads(row.owner)
                if _lives(held, row.heartbeat, now):
                    raise RunBusy(f"run {row.name} {_describe(held, row.heartbeat, now)}")
            tx.connection.execute(update(Run).where(Run.c.id == run_id).values(owner=owner, heartbeat=now, updated=now))
        return cls(begin, forget, renewal, run_id, owner)

    def keep_alive(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def confirm(self, connection: Connection) -> None:
        """Renew inside a transaction. Raises RunBusy if another writer has taken over."""
        now = time.time()
        if self._renewal.run(connection, [dict(run=self.run_id, holder=self._owner, now=now)]) != 1:
            raise RunBusy(self._describe_loss(connection))

    def _describe_loss(self, connection: Connection) -> str:
        row = connection.execute(select(Run.c.name, Run.c.owner).where(Run.c.id == self.run_id)).first()
        if row is None:
            return f"run {self.run_id} was deleted while this process wrote to it"
        if row.owner is None:
            return f"run {row.name} was taken over by another process, which has ended; evo resume continues it"
        other = json.loads(row.owner)
        return (
            f"run {row.name} was taken over by process {other['pid']} on {other['host']}, because this one was not "
            "heard of; nothing that is stored is lost, and evo watch shows it"
        )

    def forget(self) -> bool:
        """Stop holding it, without changing the database. Returns whether it was held."""
        if self._over.is_set():
            return False
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._forget(self)
        return True

    def release(self) -> None:
        """Give the run free. Safe to call twice."""
        if not self.forget():
            return
        with self._begin() as tx:
            self._free(tx.connection)

    def _free(self, connection: Connection) -> None:
        connection.execute(update(Run).where(Run.c.id == self.run_id, Run.c.owner == self._owner).values(owner=None))

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            try:
                with self._begin():
                    pass  # a transaction begins by confirming the lease
            except Exception:  # noqa: BLE001 - the writer's transaction will meet the same fault and report it
                continue
