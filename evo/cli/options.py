"""Options that several commands share."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from rich.console import Console

from evo.errors import BadInput
from islands.db.address import DEFAULT_DB, hide_in_argument, hide_password

F = TypeVar("F", bound=Callable[..., Any])
WIDE = 1000


@dataclass(frozen=True)
class OutputOptions:
    """The database that a command reads and writes, and how it shows what it does.

    plain: lines instead of the live screen; as_json: print the outcome as JSON on stdout, the rest on stderr
    """

    db: str
    plain: bool = False
    as_json: bool = False


def db_option(command: F) -> F:
    return click.option(
        "--db",
        default=DEFAULT_DB,
        show_default=True,
        envvar="EVO_DB",
        help="The database: sqlite:///FILE or postgresql+psycopg://...",
    )(command)


def ray_option(command: F) -> F:
    return click.option(
        "--ray",
        metavar="ADDRESS",
        help="Do the work on a Ray cluster: local, auto, or HOST:PORT; ?cpus= ?gpus= ?shards= describe its tasks.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def plain_option(command: F) -> F:
    return click.option("--plain", is_flag=True, help="Print plain lines instead of the live screen.")(command)


def check_processes(processes: int | None, ray: str | None) -> None:
    """BadInput if processes of this machine are named for work on a cluster."""
    if processes is not None and ray is not None:
        raise BadInput("--processes are of this machine, and --ray has its own; name one of them")


def wide_console(**settings: Any) -> Console:
    """For tables whose names and reasons are read whole: nothing is cut or wrapped to fit a terminal."""
    return Console(highlight=False, markup=False, width=WIDE, **settings)


def command_line() -> str:
    """This process's command, as it is stored: without a password. EVO_COMMAND holds the command that a person gave on
    another machine."""
    if said := os.environ.get("EVO_COMMAND"):
        return said
    return hide_password(shlex.join(["evo", *(hide_in_argument(one) for one in sys.argv[1:])]))


def arguments_for(name: str, db: str) -> str:
    """A run or comparison and its database as a suggested command takes them, ready for a shell."""
    return shlex.quote(name) + db_suffix(db)


def db_suffix(db: str) -> str:
    """` --db ADDRESS` for commands that are suggested; nothing for the default database."""
    return "" if db == DEFAULT_DB else f" --db {hide_password(db)}"
