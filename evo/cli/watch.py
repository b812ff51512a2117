"""`evo watch`: show a run or a comparison on a live screen, from another terminal or machine. It only reads."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from evo.cli.options import db_option, json_option, open_console, plain_option
from evo.errors import BadInput
from evo.tui.child import can_show

OFFERED = 9
"""Runs to choose from if none is named, unless more are running."""


@click.command()
@click.argument("name", metavar="[RUN]", required=False)
@db_option
@click.option(
    "--against", metavar="ARM", help="The arm that others are measured against.  [default: grpo, or the first]"
)
@plain_option
@json_option
@click.option("--once", is_flag=True, help="Print one picture of the screen and end.")
@click.option("--svg", metavar="FILE", help="Write one picture of 160x50 characters and end.")
def watch(
    name: str | None,
    db: str,
    against: str | None,
    plain: bool,
    as_json: bool,
    once: bool,
    svg: str | None,
) -> int:
    """Watch RUN, a search or a comparison, while it runs or after; q closes the screen, and the run continues.

    Without RUN it offers the running ones, then the newest; without a terminal it takes the first of these.

    --json prints an object every few seconds until RUN has ended, or one with --once.

    It only reads the database, so it may run on any machine that reaches the database.
    """
    if svg is not None and (once or as_json):
        raise BadInput("--svg writes a picture: leave out --once and --json")
    console = open_console(markup=False)
    if name is None:
        name = choose_run(db, ask=sys.stdin.isatty() and can_show(console) and not as_json)
    if plain or as_json or once or svg is not None or not can_show(console):
        from evo.cli import lines

        if once:
            return lines.print_picture(name, db, against, console, as_json)
        if svg is not None:
            return lines.write_picture(name, db, against, Path(svg))
        return lines.print_lines(name, db, against, console, as_json)
    from evo.progress.model import Progress
    from evo.tui.app import ScreenApp, run_screen
    from islands.store import Store

    with Store.open(db, read_only=True) as store:
        progress = Progress(store, name, against, live=True)
        return asyncio.run(run_screen(ScreenApp(lambda: progress, loading=f"reading {name}")))


def choose_run(db: str, ask: bool) -> str:
    """The run or comparison to watch: the running ones are offered first, then the newest others. ask: let the user
    choose if there are several; else it is the first of them, whose name is printed to stderr. Raises NoRuns."""
    from islands.errors import NoRuns
    from islands.store import Store

    with Store.open(db, read_only=True) as store:
        newest: dict[str, set[str]] = {}
        for run in reversed(store.runs()):
            newest.setdefault(run.comparison or run.name, set()).add(run.status)
        if not newest:
            raise NoRuns(
                f"{store.address}: the database holds no runs yet; start one with: evo run maze:test --limit 10"
            )
    running = [name for name, statuses in newest.items() if "running" in statuses]
    offered = (running + [name for name in newest if name not in running])[: max(len(running), OFFERED)]
    if not ask or len(offered) == 1:
        click.echo(
            f"watching {offered[0]}, the newest that is running" if running else f"watching {offered[0]}", err=True
        )
        return offered[0]
    for number, name in enumerate(offered, 1):
        click.echo(f"{number:3}  {name}  {'running' if name in running else '/'.join(sorted(newest[name]))}")
    number = click.prompt("Watch which one", type=click.IntRange(1, len(offered)), default=1)
    return offered[number - 1]
