"""Finds values that no version of evo has written, to explain failures on a database that something else changed or
damaged.

PostgreSQL keeps the types of its columns. SQLite keeps whatever it is given, so a number may be where a text should be;
reading it then fails in code far from the database. The search runs only after a failure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, URL, Boolean, Column, Connection, Double, Integer, LargeBinary, Table, text
from sqlalchemy.exc import DBAPIError, OperationalError

from islands.db.column_types import JsonNumbers, JsonObject, JsonTexts
from islands.db.engine import OPENED, mask_url, open_engines
from islands.db.schema import METADATA

_WAYS = {
    "runs": "id",
    "cluster_states": "NULL",
    "answers": "(SELECT g.run_id FROM rollouts r JOIN prompt_groups g ON g.id = r.group_id WHERE r.id = rollout_id)",
    "rollouts": "(SELECT run_id FROM prompt_groups WHERE prompt_groups.id = group_id)",
}
"""From a table's row to its run, for tables whose rows hold neither the run's id nor its problem's."""
_JSON: dict[type, str] = {
    JsonObject: "('object')",
    JsonNumbers: "('numbers', 'empty')",
    JsonTexts: "('texts', 'empty')",
}
_OF_PROBLEM = "(SELECT run_id FROM problems WHERE problems.id = problem_id)"


def damage_in_opened() -> str | None:
    """One line on the first damaged row in the databases that this process has opened, the newest first; None
    without one."""
    return next((line for url in reversed(tuple(OPENED)) if (line := find_damage(url))), None)


def find_damage(url: URL) -> str | None:
    """One line with run, table and row of the first value of a wrong type for its column, or of the first reference
    to a missing row; None if there is none, or the database is unreadable."""
    if url.drivername != "sqlite" or not Path(str(url.database)).is_file():
        return None
    reader = open_engines(url, read_only=True, remembered=False)[0]
    try:
        with reader.connect() as connection:
            driver: Any = connection.connection.driver_connection
            driver.create_function("evo_json", 1, _json_kind, deterministic=True)
            driver.create_function("evo_text", 1, _is_text, deterministic=True)
            return next((f"{mask_url(url)} is damaged: {damage}" for damage in _damages(connection)), None)
    except OperationalError:  # for example, locked
        return None
    except DBAPIError as error:
        return f"{mask_url(url)} is damaged: {error.orig}"
    finally:
        reader.dispose()


def _damages(connection: Connection) -> Iterator[str]:
    for table in METADATA.sorted_tables:
        wrong = " OR ".join(f"NOT ({_right(column)})" for column in table.columns)
        row = connection.execute(text(f"SELECT rowid FROM {table.name} WHERE {wrong} LIMIT 1")).first()
        if row is not None:
            place = f"{table.name} WHERE rowid = {row[0]}"
            bad = next(
                c for c in table.columns if not connection.execute(text(f"SELECT {_right(c)} FROM {place}")).scalar()
            )
            held = connection.execute(text(f'SELECT typeof("{bad.name}") FROM {place}')).scalar()
            yield f"{_named(connection, table, row[0])}: {bad.name} has an impossible value ({held})"
    lost = connection.execute(text("PRAGMA foreign_key_check")).first()
    if lost is not None:
        where = _named(connection, METADATA.tables[lost[0]], lost[1])
        yield f"{where}: it refers to a row of {lost[2]} that is not there"


def _right(column: Column[Any]) -> str:
    """SQL: whether a row's value is one that the column can hold."""
    name, kind = f'"{column.name}"', column.type
    if isinstance(kind, JSON):
        right = f"evo_json(CAST({name} AS BLOB)) IN {_JSON[type(kind)]}"
    elif isinstance(kind, Boolean):
        right = f"{name} IN (0, 1)"
    elif isinstance(kind, Integer):
        right = f"typeof({name}) = 'integer'"
    elif isinstance(kind, Double):
        right = f"typeof({name}) IN ('real', 'integer')"
    elif isinstance(kind, LargeBinary):
        right = f"typeof({name}) = 'blob'"
    else:
        right = f"typeof({name}) = 'text' AND evo_text(CAST({name} AS BLOB))"
    return f"({name} IS NULL OR {right})" if column.nullable else f"({name} IS NOT NULL AND {right})"


def _is_text(value: bytes | None) -> bool:
    """Whether the bytes of a text are UTF-8: the driver hands over nothing else. SQLite may ask before it has seen that
    there is no value."""
    try:
        return value is not None and value.decode() is not None
    except UnicodeDecodeError:
        return False


def _json_kind(value: Any) -> str:
    """The kind of a JSON column's text, as in _JSON; "empty" for an empty list, else "other"."""
    try:
        parsed = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return "other"
    if isinstance(parsed, dict):
        return "object"
    kinds = set(map(type, parsed)) if isinstance(parsed, list) else {None}
    return "empty" if not kinds else "numbers" if kinds <= {int, float} else "texts" if kinds == {str} else "other"


def _named(connection: Connection, table: Table, row: int) -> str:
    """Run, table and row in words."""
    way = _WAYS.get(table.name) or ("run_id" if "run_id" in table.columns else _OF_PROBLEM)
    query = f"SELECT name FROM runs WHERE id = (SELECT {way} FROM {table.name} WHERE rowid = {row})"
    run = connection.execute(text(query)).scalar()
    return f"run {run}, table {table.name}, row {row}" if run is not None else f"table {table.name}, row {row}"
