"""Statements that a search repeats for every group: compiled once, then run on the driver's own cursor.

SQLAlchemy spends several times as long on a statement of one row as the database, even if the compiled form is cached:
    it rebuilds the parameters, an execution context and a result. A prepared statement keeps SQLAlchemy's text, column
    types and exceptions, and leaves out the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, Table, UpdateBase
from sqlalchemy.exc import DBAPIError

Row = Mapping[str, Any]


class Prepared:
    """One INSERT, UPDATE or DELETE for one kind of database, rows to be given by column or bind name.

    An INSERT without values takes every column that the database does not number by itself.
    """

    def __init__(self, statement: UpdateBase, dialect: Dialect) -> None:
        columns = None
        if isinstance(statement, Insert) and isinstance(statement.table, Table):
            numbered = statement.table.autoincrement_column
            columns = [column.name for column in statement.table.columns if column is not numbered]
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        self._dialect = dialect
        self._text = str(compiled)
        processors = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect) for name, bind in compiled.binds.items()
        }
        self._positional = compiled.positiontup is not None
        names: Sequence[str] = compiled.positiontup if compiled.positiontup is not None else list(processors)
        self._plan: list[tuple[str, Callable[[Any], Any] | None]] = [(name, processors[name]) for name in names]

    def run(self, connection: Connection, rows: Sequence[Row]) -> int:
        """Once per row; how many rows of the table the last one met. Raises what SQLAlchemy raises."""
        values = [self._values(row) for row in rows]
        cursor = self._driver(connection).cursor()
        try:
            if len(values) == 1:
                cursor.execute(self._text, values[0])
            else:
                cursor.executemany(self._text, values)
            return int(cursor.rowcount)
        except self._dialect.loaded_dbapi.Error as error:
            raise self._failed(connection, error, values) from error
        finally:
            cursor.close()

    def ids(self, connection: Connection, rows: Sequence[Row]) -> list[int]:
        """The id that each row of an INSERT ... RETURNING id was given, in order. Raises what SQLAlchemy raises."""
        ids: list[int] = []
        values = [self._values(row) for row in rows]
        cursor = self._driver(connection).cursor()
        try:
            if len(values) > 1 and self._dialect.name == "postgresql":
                cursor.executemany(self._text, values, returning=True)  # one round trip, a result per row
                ids.append(cursor.fetchone()[0])
                while cursor.nextset():
                    ids.append(cursor.fetchone()[0])
            else:
                for row_values in values:
                    ids.append(cursor.execute(self._text, row_values).fetchone()[0])
        except self._dialect.loaded_dbapi.Error as error:
            raise self._failed(connection, error, values) from error
        finally:
            cursor.close()
        return ids

    def _values(self, row: Row) -> Any:
        """The row as the driver takes it."""
        if self._positional:
            return [row[name] if process is None else process(row[name]) for name, process in self._plan]
        return {name: row[name] if process is None else process(row[name]) for name, process in self._plan}

    def _driver(self, connection: Connection) -> Any:
        driver = connection.connection.driver_connection
        assert driver is not None  # the caller's transaction holds it
        return driver

    def _failed(self, connection: Connection, error: Exception, values: Any) -> BaseException:
        """The same as SQLAlchemy makes of it; a connection that is gone is not used again."""
        dialect = self._dialect
        gone = dialect.is_disconnect(error, connection.connection.driver_connection, None)  # type: ignore[arg-type]
        if gone:
            connection.invalidate(error)
        return DBAPIError.instance(
            self._text, values, error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
        )


class Statements:
    """The statements that a store has prepared so far; its problems share them."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._prepared: dict[UpdateBase, Prepared] = {}

    def prepare(self, statement: UpdateBase) -> Prepared:
        """Compiled at the first use of this statement."""
        if statement not in self._prepared:
            self._prepared[statement] = Prepared(statement, self._dialect)
        return self._prepared[statement]
