"""From an address to engines: what each database needs to be fast and safe, and the migration of its schema."""

from __future__ import annotations

import os
import sqlite3
import uuid
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.pool import QueuePool

from islands.db.schema import METADATA, REVISION
from islands.errors import DatabaseUnavailable, NoRuns
from problems.redaction import redact, remember

SCHEMES = "use sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
MIGRATION_LOCK = 0x65766F  # an arbitrary number that only this program's migrations lock
BUSY_SECONDS = 30
OPENED: list[URL] = []
"""The databases of this process, the newest last, to be inspected after a failure (islands.db.damage)."""
_VERSION_TABLE = """CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""
"""The table as Alembic makes it."""


def parse_address(address: str) -> URL:
    """The URL, `postgresql://` and `postgres://` meaning psycopg. Raises DatabaseUnavailable in one line."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise DatabaseUnavailable(f"not a database address; {SCHEMES}") from None
    for secret in (url.password, url.query.get("password"), url.query.get("sslpassword")):
        remember(str(secret) if secret else None)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite+pysqlite",):
        url = url.set(drivername="sqlite")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise DatabaseUnavailable(f"{url.drivername}: not a database that runs can be kept in; {SCHEMES}")
    if url.drivername == "sqlite" and url.database in (None, "", ":memory:"):
        raise DatabaseUnavailable(
            "sqlite in memory could not be resumed or watched; name a file, as in sqlite:///evo.db"
        )
    return url


def mask_url(url: URL) -> str:
    """The address without its password."""
    return redact(url.render_as_string(hide_password=True))


def unavailable(url: URL, error: BaseException) -> DatabaseUnavailable:
    """One line from any error of the driver."""
    reason = str(getattr(error, "orig", None) or error).strip()
    reason = " ".join(reason.split()) or type(error).__name__
    if reason == "database is locked":
        reason = f"another program has been writing to it for {BUSY_SECONDS} s"
    return DatabaseUnavailable(redact(f"{mask_url(url)}: {reason}"))


def open_engines(url: URL, read_only: bool, must_exist: bool = False, remembered: bool = True) -> tuple[Engine, Engine]:
    """(writer, reader). The writer begins real transactions; the reader runs each query by itself, so that it never
    holds a snapshot open. With read_only both are the reader. remembered: it becomes the newest of OPENED"""
    if remembered:
        if url in OPENED:
            OPENED.remove(url)
        OPENED.append(url)
    if url.drivername == "sqlite":
        _check_file(url, read_only or must_exist, read_only)
        reader = _sqlite(url, "ro" if read_only else "rwc", None)
        return (reader, reader) if read_only else (_sqlite(url, "rwc", "BEGIN IMMEDIATE"), reader)
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise DatabaseUnavailable(f"{mask_url(url)}: needs psycopg; pip install 'evo-search[postgres]'") from None
    options: dict[str, Any] = {"connect_timeout": 10, "application_name": "evo"}
    if "connect_timeout" in url.query:
        del options["connect_timeout"]
    if read_only:
        options["options"] = "-c default_transaction_read_only=on"
    reader = create_engine(url, connect_args=options, pool_size=4, max_overflow=8, isolation_level="AUTOCOMMIT")
    if read_only:
        return reader, reader
    # whatever the server's default is: a stricter level may refuse transactions, which are not tried again
    return create_engine(url, connect_args=options, pool_size=2, isolation_level="READ COMMITTED"), reader


class _MemoryDatabase:
    """A new SQLite database in memory, which is gone with its last connection. It keeps one open."""

    def __init__(self) -> None:
        self.name = f"file:evo-{uuid.uuid4().hex}?mode=memory&cache=shared"
        self.kept = self.connect()

    def connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.name, uri=True, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA read_uncommitted=ON")  # a reader waits for no writer, as with a file
        return connection


def memory_engines() -> tuple[Engine, Engine]:
    """(writer, reader) of a new database in memory, which only these two can open."""
    database = _MemoryDatabase()
    writer, reader = (create_engine("sqlite://", creator=database.connect, poolclass=QueuePool) for _ in range(2))

    @event.listens_for(writer, "begin")
    def take_the_lock(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return writer, reader


def _check_file(url: URL, must_exist: bool, read_only: bool) -> None:
    path = Path(str(url.database))
    if path.is_dir():
        raise DatabaseUnavailable(f"{mask_url(url)}: {path} is a folder; name a file in it")
    if must_exist and not path.exists():
        raise DatabaseUnavailable(f"{mask_url(url)}: there is no such file yet; a run makes it")
    if not path.parent.exists():
        raise DatabaseUnavailable(f"{mask_url(url)}: the folder {path.parent} does not exist")
    if not read_only and _is_read_only(path.parent):
        raise DatabaseUnavailable(f"{mask_url(url)}: {path.parent} is mounted read-only, nothing can be stored there")


def _is_read_only(folder: Path) -> bool:
    """Whether no user of this machine can write there."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _sqlite(url: URL, mode: str, begin: str | None) -> Engine:
    path = Path(str(url.database)).absolute()
    log = path.with_name(f"{path.name}-wal")
    # SQLite would make files for its readers, which are not needed if nothing can be written
    apart = "&immutable=1" if mode == "ro" and _is_read_only(path.parent) and not log.exists() else ""

    def connect() -> sqlite3.Connection:
        # isolation_level None: sqlite3 would otherwise begin transactions itself, and only before some statements
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}{apart}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA cache_size=-65536")  # 64 MiB
        if mode != "ro":
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    engine = create_engine("sqlite://", creator=connect, pool_size=4, max_overflow=8, poolclass=QueuePool)
    if begin is None:
        return engine  # nothing begins a transaction, so each statement is one

    @event.listens_for(engine, "begin")
    def take_the_lock(connection: Connection) -> None:
        try:
            connection.exec_driver_sql(begin)  # a deferred one could fail half-way when another writer was faster
        except OperationalError:
            connection.info["hurried"] = True
            connection.exec_driver_sql("PRAGMA busy_timeout=1000")  # the last words must not wait as long again
            raise
        if connection.info.pop("hurried", False):
            connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")

    return engine


def revision_of(connection: Connection) -> str | None:
    """The schema revision of a database, None for one without our tables."""
    try:
        row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    except (OperationalError, ProgrammingError) as error:
        if "alembic_version" in str(error.orig):
            return None
        raise
    return row[0] if row else None


def ensure_schema(url: URL, writer: Engine, reader: Engine, read_only: bool) -> None:
    """Bring the schema up to REVISION. A reader changes nothing: it gets a DatabaseUnavailable if the schema is
    older or there are no runs yet; a writer gets one if the schema cannot be upgraded."""
    try:
        with reader.connect() as connection:
            revision = revision_of(connection)
        if revision == REVISION:
            return
        if read_only and revision is None:
            raise NoRuns(f"{mask_url(url)}: the database holds no runs yet")
        if revision is not None:
            _check_known(url, revision)
        if read_only:
            raise DatabaseUnavailable(
                f"{mask_url(url)}: it has the older schema {revision}, which reading does not change; bring it up to "
                f"{REVISION} with `evo runs upgrade`, when no older evo writes to it"
            )
        with writer.begin() as connection:
            if url.drivername != "sqlite":  # SQLite's BEGIN IMMEDIATE is the lock
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            _upgrade(connection) if _has_tables(connection) else _create(connection)
    except DBAPIError as error:
        raise unavailable(url, error) from None
    except UnicodeDecodeError:  # the driver cannot decode its error message, which quotes the damaged schema
        raise DatabaseUnavailable(f"{mask_url(url)}: the file is damaged") from None


def _check_known(url: URL, revision: str) -> None:
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory(str(_folder())).walk_revisions()}
    if revision not in known:
        raise DatabaseUnavailable(
            f"{mask_url(url)}: its schema {revision} is newer than this version of evo, which knows {REVISION}; "
            "upgrade evo"
        )


def _has_tables(connection: Connection) -> bool:
    """Whether anything of ours is there, now that no other process can be making it."""
    names = inspect(connection).get_table_names()
    return bool({"alembic_version", *METADATA.tables} & set(names))


def _create(connection: Connection) -> None:
    """A new database at REVISION: Alembic takes several times longer to load than the tables to make."""
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(text(_VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": REVISION})


def _folder() -> Path:
    return Path(__file__).parent / "alembic"


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_folder()).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
