"""Options that several commands share."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import rich.table
from rich.console import Console
from rich.text import Text

from evo.errors import BadInput
from evo.process import wrap_words
from evo.tui.line import clean
from islands.names import DEFAULT_DB, format_db_option, hide_in_argument
from problems.redaction import redact
from problems.weights import SPREAD, parse_weights

if TYPE_CHECKING:
    from evo.progress.rows import Table  # a search does without

WIDE = 1000
SCHEMA = 2
"""The version of the JSON that commands print. A key that goes or changes its meaning raises it; a new key does not."""


@dataclass(frozen=True)
class OutputOptions:
    """The database that a command reads and writes, and how it shows its progress and outcome.

    plain: print lines instead of the live screen
    as_json: print the outcome as JSON on stdout, and the rest on stderr
    """

    db: str
    plain: bool = False
    as_json: bool = False


db_option = click.option(
    "--db",
    default=DEFAULT_DB,
    show_default=True,
    envvar="EVO_DB",
    help="The database: sqlite:///FILE or postgresql+psycopg://...",
)
config_option = click.option(
    "--config", "config_path", metavar="FILE.yaml", help="Read the same settings from a YAML file; flags override it."
)
ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Do the work on a Ray cluster: local, auto, or HOST:PORT; ?cpus= ?gpus= ?resources= describe its tasks.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _weights_option(spread: bool) -> Callable[[Any], Any]:
    """--weights of a command that reads what is stored. spread: whether it can judge under many weightings"""

    def read(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, float] | str | None:
        weights = None if text is None else parse_weights(text)
        if weights == SPREAD and not spread:
            raise BadInput(f"--weights {SPREAD} judges a whole search: evo show and evo report take it")
        return weights

    every = f" {SPREAD}: under many weightings." if spread else ""
    about = "Judge the stored answers by these weights of the objectives, as in gold=3,diamond=1; none is scored again."
    return click.option("--weights", metavar="NAME=NUMBER,...", callback=read, help=about + every)


weights_option, named_weights_option = _weights_option(spread=True), _weights_option(spread=False)
plain_option = click.option("--plain", is_flag=True, help="Print plain lines instead of the live screen.")


def print_json(
    value: Mapping[str, Any] | Sequence[Mapping[str, Any]], default: Callable[[Any], Any] | None = None
) -> None:
    """Print the outcome of a command as one line: an object, or a list of objects, each with the version of its keys
    (docs/guides/runs.md). default: as of json.dumps"""
    version = {"schema": SCHEMA}
    versioned = {**version, **value} if isinstance(value, Mapping) else [{**version, **row} for row in value]
    click.echo(json.dumps(versioned, default=default))


def check_processes(processes: int | None, ray: str | None) -> None:
    """Raise BadInput if --processes, which are of this machine, are given for work on a cluster."""
    if processes is not None and ray is not None:
        raise BadInput("--processes are of this machine, and a Ray cluster has its own: use --processes or --ray")


class _WordConsole(Console):
    """Its `soft_wrap` breaks lines too, between words alone."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        if soft_wrap and self.is_terminal:
            objects = tuple(map(self._wrap, objects))
        super().print(*objects, soft_wrap=soft_wrap, **options)

    def _wrap(self, text: Any) -> Any:
        if isinstance(text, Text) and not text.spans:
            return Text(wrap_words(text.plain, self.width), text.style)
        return wrap_words(text, self.width) if isinstance(text, str) else text


def open_console(**settings: Any) -> Console:
    """A console for what people read. Off a terminal nothing is wrapped."""
    console = _WordConsole(**{"highlight": False, "emoji": False, **settings})
    if not console.is_terminal:
        console.width = WIDE
    return console


def open_wide_console(**settings: Any) -> Console:
    """A console for tables: no name or reason is cut or wrapped to fit a terminal."""
    return Console(highlight=False, markup=False, width=WIDE, **settings)


def print_table(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> None:
    """Print the table without the columns that hold nothing; on a terminal, texts that are too long are wrapped.
    right: titles of right-aligned columns"""
    held = [at for at in range(len(titles)) if not rows or any(row[at] not in ("-", "") for row in rows)]
    titles, rows = [titles[at] for at in held], [[row[at] for at in held] for row in rows]
    table = rich.table.Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if console.is_terminal else ""
    )
    for title in titles:
        table.add_column(Text(title), justify="right" if title in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean(" ".join(cell.splitlines()))) for cell in row))
    console.print(table, width=Console().width if console.is_terminal else None)


def paint_table(console: Console, table: Table | None, noted: Collection[str] = ("best",)) -> None:
    """Print a table of cells below its caption; nothing without one. noted: columns with room for notes"""
    if table is None:
        return
    if table.caption:
        console.print(Text(f"\n{clean(table.caption)}"), soft_wrap=True)
    titles = [column.title.replace(" ", "\n") for column in table.columns]  # narrow columns
    shown = [column.title in noted for column in table.columns]
    rows = [
        [f"{cell.text} {cell.note * note}".rstrip() for cell, note in zip(row, shown, strict=True)]
        for row in table.rows
    ]
    print_table(
        console, titles, rows, [title for title, column in zip(titles, table.columns, strict=True) if column.number]
    )


def read_command() -> str:
    """This process's command without its passwords, as a run stores it."""
    return redact(shlex.join(["evo", *(hide_in_argument(argument) for argument in sys.argv[1:])]))


def format_arguments(name: str, db: str) -> str:
    """A run or comparison and its database, quoted as arguments of a suggested command."""
    return shlex.quote(name) + format_db_option(db)
