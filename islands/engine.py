"""From an address to engines: what each database needs to be fast and safe; and its schema, made of islands.schema, or
brought up to it from an earlier revision by Alembic."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Dialect,
    Engine,
    Insert,
    Update,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, ProgrammingError
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.compiler import SQLCompiler

from islands.errors import DatabaseUnavailable, NoRuns
from islands.schema import METADATA, REVISION
from problems.redaction import redact, remember

SCHEMES = "use sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
_SUFFIXES = (".db", ".sqlite", ".sqlite3")
"""Of paths that are SQLite databases, also before they exist."""
_BUSY_SECONDS = 30


def parse_url(address: str) -> URL:
    """The URL, `postgresql://` and `postgres://` meaning psycopg, and a path a SQLite database. Raises
    DatabaseUnavailable in one line."""
    plain = "://" not in address and (address.endswith(_SUFFIXES) or Path(address).is_file())
    try:
        url = URL.create("sqlite", database=address) if plain else make_url(address)
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
        reason = f"another program has been writing to it for {_BUSY_SECONDS} s"
    return DatabaseUnavailable(redact(f"{mask_url(url)}: {reason}"))


def database_file(url: URL) -> Path | None:
    """The file of a SQLite database, None for a server."""
    return Path(url.database).absolute() if url.drivername == "sqlite" and url.database else None


def open_engines(url: URL, read_only: bool, must_exist: bool = False) -> tuple[Engine, Engine]:
    """(writer, reader). The writer begins transactions that may write; those of the reader see one moment each, however
    many queries they run. With read_only both are the reader."""
    if (file := database_file(url)) is not None:
        _check_file(url, file, read_only or must_exist, read_only)
        reader = _sqlite(file, read_only, "BEGIN")
        return (reader, reader) if read_only else (_sqlite(file, False, "BEGIN IMMEDIATE"), reader)
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise DatabaseUnavailable(f"{mask_url(url)}: needs psycopg; pip install 'evo-search[postgres]'") from None
    # whatever the server and the environment say: texts of any alphabet pass
    options: dict[str, Any] = {"connect_timeout": 10, "application_name": "evo", "client_encoding": "utf8"}
    if "connect_timeout" in url.query:
        del options["connect_timeout"]
    # the server notices within 90 s that a machine is gone which holds a run
    options["options"] = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=15 -c tcp_keepalives_count=4"
    reading = {**options, "options": f"{options['options']} -c default_transaction_read_only=on"}
    # whatever the server's default is: a weaker level shows a reader two moments, a stricter one may refuse a writer's
    # transactions, which are not tried again
    reader = _postgresql(url, "REPEATABLE READ", connect_args=reading, pool_size=4, max_overflow=8)
    if read_only:
        return reader, reader
    return _postgresql(url, "READ COMMITTED", connect_args=options, pool_size=2), reader


def _postgresql(url: URL, isolation: IsolationLevel, **options: Any) -> Engine:
    engine = create_engine(url, isolation_level=isolation, **options)

    @event.listens_for(engine, "connect", insert=True)  # before SQLAlchemy's own first questions
    def check_encoding(connection: Any, _: object) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise DatabaseUnavailable(
                f"{mask_url(url)}: its encoding is {encoding}, which cannot hold every text; create the database with "
                "encoding 'UTF8' template template0"
            )

    return engine


def check_writable(address: str) -> bool:
    """Whether a database is there. Raises DatabaseUnavailable, one line without the password, if it cannot be reached,
    or if it is a file that this user may not write. Nothing is created."""
    url = parse_url(address)
    if (file := database_file(url)) is not None:
        _check_file(url, file, must_exist=False, read_only=True)
        # the journal is next to the file, so its folder must be writable too
        if not os.access(file.parent, os.W_OK) or (file.exists() and not os.access(file, os.W_OK)):
            raise DatabaseUnavailable(
                f"{mask_url(url)}: this user may not write to {file.parent}; name another file with --db"
            )
        return file.exists()
    reader, _ = open_engines(url, read_only=True)
    try:
        reader.connect().close()
    except DBAPIError as error:
        raise unavailable(url, error) from None
    finally:
        reader.dispose()
    return True


def _check_file(url: URL, path: Path, must_exist: bool, read_only: bool) -> None:
    if path.is_dir():
        raise DatabaseUnavailable(f"{mask_url(url)}: {path} is a folder; name a file in it")
    if not path.parent.exists():
        raise DatabaseUnavailable(f"{mask_url(url)}: the folder {path.parent} does not exist")
    if must_exist and not path.exists():
        raise NoRuns(f"{mask_url(url)}: the file does not exist; the first run creates it")
    if read_only:
        return
    if _is_read_only(path.parent):
        raise DatabaseUnavailable(f"{mask_url(url)}: {path.parent} is mounted read-only, nothing can be stored there")
    try:
        path.touch()  # afterwards no connection makes the file, so that one that was moved is noticed
    except OSError as error:
        raise DatabaseUnavailable(f"{mask_url(url)}: {error.strerror or error}") from None


def _is_read_only(folder: Path) -> bool:
    """Whether no user of this machine can write there."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _sqlite(path: Path, read_only: bool, begin: str) -> Engine:
    log = path.with_name(f"{path.name}-wal")
    # SQLite would make files for its readers, which are not needed if nothing can be written
    apart = "&immutable=1" if read_only and _is_read_only(path.parent) and not log.exists() else ""

    def connect() -> sqlite3.Connection:
        # isolation_level None: sqlite3 would otherwise begin transactions itself, and only before some statements
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={'ro' if read_only else 'rw'}{apart}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA cache_size=-8192")  # 8 MiB: the rest is in the system's cache of the file
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        return connection

    engine = create_engine("sqlite://", creator=connect, pool_size=4, max_overflow=8, poolclass=QueuePool)

    @event.listens_for(engine, "begin")
    def take_the_lock(connection: Connection) -> None:
        try:
            connection.exec_driver_sql(begin)  # IMMEDIATE of a writer: else it could fail half-way behind another one
        except OperationalError:
            connection.info["hurried"] = True
            connection.exec_driver_sql("PRAGMA busy_timeout=1000")  # the last words must not wait as long again
            raise
        if connection.info.pop("hurried", False):
            connection.exec_driver_sql(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")

    return engine


@dataclass(eq=False)
class PreparedStatement:
    """An insert or update that runs with every group. On SQLite it is compiled once and given to the driver as it is:
    SQLAlchemy's work for each execution takes four times as long as SQLite's. A server's round trip takes longer than
    both, and there SQLAlchemy sends many rows at once."""

    statement: Insert | Update
    _compiled: tuple[str, list[_Parameter]] | None = None

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The first value that each row returns, in order; [] of a statement that returns none. All rows have the same
        keys, always. Raises SQLAlchemy's errors."""
        if connection.dialect.name != "sqlite":
            result = connection.execute(self.statement, rows)
            return list(result.scalars()) if result.returns_rows else []
        sql, parameters = self._compiled or self._compile(connection.dialect, rows[0])
        returned: list[Any] = []
        cursor = connection.connection.cursor()
        try:
            for row in rows:
                cursor.execute(sql, [row[name] if bind is None else bind(row[name]) for name, bind in parameters])
                returned += [values[0] for values in cursor.fetchall()]
        except sqlite3.Error as error:
            raise DBAPIError.instance(sql, None, error, sqlite3.Error, dialect=connection.dialect) from error
        finally:
            cursor.close()
        return returned

    def _compile(self, dialect: Dialect, row: Mapping[str, Any]) -> tuple[str, list[_Parameter]]:
        columns = [name for name in row if name in self.statement.table.c]
        compiled = self.statement.compile(dialect=dialect, column_keys=columns)
        assert isinstance(compiled, SQLCompiler)
        types = {name: bind.type.dialect_impl(dialect) for name, bind in compiled.binds.items()}
        order = compiled.positiontup or ()
        self._compiled = str(compiled), [(name, types[name].bind_processor(dialect)) for name in order]
        return self._compiled


_Parameter = tuple[str, Callable[[Any], Any] | None]
"""Its name, and what makes a value that the driver takes."""


_LOCK = 0x65766F  # an arbitrary number that only this program's migrations lock
_VERSION_TABLE = """CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""
"""The table as Alembic makes it."""
BASE = "0014"
"""The schema of the first revision, the oldest that can be opened."""
SCRIPTS = Path(__file__).parent / "alembic"


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
        if revision is not None and revision > REVISION:
            why = f"is newer than this version of evo, which knows {REVISION}; upgrade evo"
            raise DatabaseUnavailable(f"{mask_url(url)}: its schema {revision} {why}")
        if revision is not None and revision < BASE:
            why = (
                "is too old for this version of evo; the evo of commit 4445a27f writes its runs to files (`evo export`)"
            )
            raise DatabaseUnavailable(f"{mask_url(url)}: its schema {revision} {why}")
        if read_only:
            raise DatabaseUnavailable(
                f"{mask_url(url)}: it has the older schema {revision}, which reading does not change; bring it up to "
                f"{REVISION} with `evo runs upgrade`, when no older evo writes to it"
            )
        with writer.begin() as connection:
            if url.drivername != "sqlite":  # SQLite's BEGIN IMMEDIATE is the lock
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            _upgrade(url, connection)
    except DBAPIError as error:
        raise unavailable(url, error) from None
    except UnicodeDecodeError:  # the driver cannot decode its error message, which quotes the damaged schema
        raise DatabaseUnavailable(f"{mask_url(url)}: the file is damaged") from None


def _upgrade(url: URL, connection: Connection) -> None:
    """Create or migrate, now that no other process can be doing it."""
    if not {"alembic_version", *METADATA.tables} & set(inspect(connection).get_table_names()):
        METADATA.create_all(connection, checkfirst=False)  # Alembic takes several times longer to load
        connection.execute(text(_VERSION_TABLE))
        connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": REVISION})
        return
    if revision_of(connection) is None:
        raise DatabaseUnavailable(f"{mask_url(url)}: its tables have no revision; name another database")
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
