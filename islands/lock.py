"""One writer a run: a lock that ends with its process, and the owner's name for a process that finds the run locked.

SQLite: a lock on one byte of the file DATABASE.lock, the byte of the run's id. PostgreSQL: an advisory lock of a
connection that is kept for it. Both are gone with the process that holds them, however it ends. A transaction also
confirms the owner's token in the run's row, so that a writer whose lock was lost (a cut connection, a removed file)
cannot add to a run that another has taken over.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Connection, Engine, text

from islands.errors import RunBusy

LOST = "its process died; evo resume continues it"
"""The reason of a run whose writer died without recording how it ended, which is shown as interrupted."""
CLASS = 0x65766F
"""The first key of this program's advisory locks in PostgreSQL."""
_FLOCK = "hhqqi4x"  # short l_type, l_whence; off_t l_start, l_len; pid_t l_pid
# locks of the open file: two stores of one process exclude each other too; elsewhere than on Linux, of the process
_SET, _GET = getattr(fcntl, "F_OFD_SETLK", fcntl.F_SETLK), getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)


class FileLocks:
    """Locks of runs by a file next to a SQLite database."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}.lock")
        self._file: int | None = None

    def acquire(self, run: int) -> bool:
        """Lock a run; False if another process, or another store, has locked it."""
        if self._file is None:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._set(fcntl.F_WRLCK, run)

    def release(self, run: int) -> None:
        """Unlock a run."""
        self._set(fcntl.F_UNLCK, run)

    def _set(self, kind: int, run: int) -> bool:
        assert self._file is not None
        try:
            fcntl.fcntl(self._file, _SET, struct.pack(_FLOCK, kind, os.SEEK_SET, run, 1, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def held(self, runs: Iterable[int]) -> set[int]:
        """Those of the runs that any process has locked."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # nothing was ever locked
            return set()
        asked = {run: struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, run, 1, 0) for run in runs}
        try:
            found = {run: struct.unpack(_FLOCK, fcntl.fcntl(file, _GET, lock)) for run, lock in asked.items()}
        finally:
            os.close(file)
        return {run for run, (kind, *_) in found.items() if kind != fcntl.F_UNLCK}

    def take_over(self, run: int) -> None:
        """Break the lock of a writer that is known to be lost. None: its token alone keeps it out."""

    def close(self) -> None:
        """Unlock all."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class AdvisoryLocks:
    """Locks of runs by a connection to PostgreSQL, with the methods of FileLocks."""

    def __init__(self, reader: Engine) -> None:
        self._reader = reader
        self._connection: Connection | None = None

    def acquire(self, run: int) -> bool:
        if self._connection is None:
            # it is kept for long, so it must not stay in a transaction
            self._connection = self._reader.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._connection.detach()  # it is closed with this object, not given to other readers
        query = text("SELECT pg_try_advisory_lock(:class, :run)")
        return bool(self._connection.execute(query, {"class": CLASS, "run": run}).scalar())

    def release(self, run: int) -> None:
        if self._connection is not None:
            self._connection.execute(text("SELECT pg_advisory_unlock(:class, :run)"), {"class": CLASS, "run": run})

    def held(self, runs: Iterable[int]) -> set[int]:
        with self._reader.connect() as connection:
            found = connection.execute(text(f"SELECT objid FROM {_LOCKS}"), {"class": CLASS}).scalars()
            return set(runs) & {int(run) for run in found}

    def take_over(self, run: int) -> None:
        query = text(f"SELECT pg_terminate_backend(pid, 5000) FROM {_LOCKS} AND objid = :run")
        with self._reader.connect() as connection:
            connection.execute(query, {"class": CLASS, "run": run})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_LOCKS = (
    "pg_locks WHERE locktype = 'advisory' AND classid = :class AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def new_owner() -> str:
    """This process, as a run's row names its writer."""
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "token": secrets.token_hex(8)})


def busy(name: str, owner: str | None) -> RunBusy:
    """What to say to a second writer. owner: as in the run's row"""
    holder, remedy = "another process", ""
    if owner is not None:
        host, pid = json.loads(owner)["host"], json.loads(owner)["pid"]
        here = host == socket.gethostname()
        holder = f"process {pid} on {'this machine' if here else host}"
        remedy = f" by kill {pid}" if here else " there"
    return RunBusy(f"run {name} is being written by {holder}: let it end, or stop it{remedy}")


def taken(name: str | None, run: int, owner: str | None) -> RunBusy:
    """What to say to a writer whose run has another owner. name: None for a run that is not there"""
    if name is None:
        return RunBusy(f"run {run} was deleted while this process wrote to it")
    if owner is None:
        return RunBusy(f"run {name} was taken over by another process, which has ended; evo resume continues it")
    other = json.loads(owner)
    return RunBusy(
        f"run {name} was taken over by process {other['pid']} on {other['host']}; nothing that is stored is lost, and "
        "evo watch shows it"
    )
