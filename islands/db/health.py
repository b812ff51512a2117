"""Checks whether a run can use a database, without changing it: no table is made, nothing is migrated."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from islands.db.engine import mask_url, open_engines, parse_address, revision_of, unavailable
from islands.db.schema import REVISION
from islands.errors import DatabaseUnavailable


@dataclass(frozen=True)
class DatabaseHealth:
    """address: without a password; kind: "sqlite" or "postgresql"; exists: False for an SQLite file that does not exist
    yet; revision: of its schema, None if it has no runs; wanted: the schema of this version of evo
    writable: whether tables can be made and rows be written; rtt: seconds of one query; clock_ahead: seconds that the
    server's clock is ahead of this machine's, None if there is no server; folder: of an SQLite file"""

    address: str
    kind: str
    exists: bool
    revision: str | None
    writable: bool
    wanted: str = REVISION
    rtt: float | None = None
    clock_ahead: float | None = None
    folder: Path | None = None


def examine_database(address: str) -> DatabaseHealth:
    """Inspect a database. Raises DatabaseUnavailable, one line without the password, if it cannot be reached."""
    url = parse_address(address)
    if url.drivername == "sqlite":
        return _examine_file(url)
    reader, _ = open_engines(url, read_only=True)
    try:
        with reader.connect() as connection:
            revision = revision_of(connection)
            rtt, ahead = _compare_clocks(connection)
            writable = bool(
                connection.execute(
                    text("SELECT NOT pg_is_in_recovery() AND has_schema_privilege(current_schema(), 'CREATE')")
                ).scalar()
            )
    except DBAPIError as error:
        raise unavailable(url, error) from None
    finally:
        reader.dispose()
    return DatabaseHealth(mask_url(url), "postgresql", True, revision, writable, rtt=rtt, clock_ahead=ahead)


def _examine_file(url: URL) -> DatabaseHealth:
    path = Path(str(url.database)).absolute()
    folder = path.parent
    if path.is_dir() or not folder.is_dir():
        wrong = f"{path} is a folder; name a file in it" if path.is_dir() else f"the folder {folder} does not exist"
        raise DatabaseUnavailable(f"{mask_url(url)}: {wrong}")
    # the journal is next to the file, so its folder must be writable too
    writable = os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    if not path.exists():
        return DatabaseHealth(mask_url(url), "sqlite", False, None, writable, folder=folder)
    reader: Engine = open_engines(url, read_only=True)[0]
    try:
        with reader.connect() as connection:
            revision = revision_of(connection)
    except DBAPIError as error:
        raise unavailable(url, error) from None
    finally:
        reader.dispose()
    return DatabaseHealth(mask_url(url), "sqlite", True, revision, writable, folder=folder)


def _compare_clocks(connection: Connection, tries: int = 5) -> tuple[float, float]:
    """(seconds of the fastest query, seconds that the server is ahead): by the fastest, whose middle is known best."""
    offsets = []
    for _ in range(tries):
        before, began = time.time(), time.perf_counter()
        server = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
        took = time.perf_counter() - began
        offsets.append((took, server - (before + took / 2)))
    return min(offsets)
