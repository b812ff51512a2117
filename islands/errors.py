"""What can go wrong with a database, each with one line that says what to do."""

from __future__ import annotations

import sys


class DatabaseUnavailable(Exception):
    """The address names no usable database. One line, never with the password."""


class DatabaseMoved(DatabaseUnavailable):
    """The file of the database is not the one that was opened: it was moved, replaced or deleted."""


class NoRuns(DatabaseUnavailable):
    """The database holds no runs yet, or is a file that the first run will create."""


class RunExists(Exception):
    """A run of that name is in the database already."""


class BadName(ValueError):
    """What was given as a name cannot be one; one line that says what can."""


class UnknownRun(Exception):
    """No run of that name; the message lists close names."""


class RunBusy(Exception):
    """Another live process writes to the run, or took it over from this one."""


def is_database_fault(error: Exception) -> bool:
    """Whether an exception is the database's or its driver's."""
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy.exc import SQLAlchemyError

    return isinstance(error, SQLAlchemyError)


def driver_message(error: Exception) -> str:
    """A database's fault in the words of its driver, without the statement and its parameters."""
    from sqlalchemy.exc import DBAPIError

    if isinstance(error, DBAPIError):
        return str(error.orig)
    return str(error.args[0]) if error.args else type(error).__name__
