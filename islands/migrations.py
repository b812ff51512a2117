"""The schema of a database: made of islands.schema, or brought up to it from an earlier revision by Alembic."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from islands.engine import mask_url, unavailable
from islands.errors import DatabaseUnavailable, NoRuns
from islands.schema import METADATA, REVISION

LOCK = 0x65766F  # an arbitrary number that only this program's migrations lock
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
        _check_known(url, revision)
        if read_only:
            raise DatabaseUnavailable(
                f"{mask_url(url)}: it has the older schema {revision}, which reading does not change; bring it up to "
                f"{REVISION} with `evo runs upgrade`, when no older evo writes to it"
            )
        with writer.begin() as connection:
            if url.drivername != "sqlite":  # SQLite's BEGIN IMMEDIATE is the lock
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
            _upgrade(url, connection)
    except DBAPIError as error:
        raise unavailable(url, error) from None
    except UnicodeDecodeError:  # the driver cannot decode its error message, which quotes the damaged schema
        raise DatabaseUnavailable(f"{mask_url(url)}: the file is damaged") from None


def _check_known(url: URL, revision: str | None) -> None:
    if revision is None or BASE <= revision <= REVISION:
        return
    if revision < BASE:
        raise DatabaseUnavailable(
            f"{mask_url(url)}: its schema {revision} is too old for this version of evo; the evo of commit 4445a27f "
            "writes its runs to files (`evo export`)"
        )
    raise DatabaseUnavailable(
        f"{mask_url(url)}: its schema {revision} is newer than this version of evo, which knows {REVISION}; upgrade evo"
    )


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
