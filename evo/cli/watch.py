"""`evo watch`: a run or a comparison on a live screen, as a line every few seconds, or as a picture. It only reads."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import click
from rich.console import Console

from evo.api.display import format_line
from evo.cli.live import choose_pause
from evo.cli.options import db_option, json_option, open_console, plain_option, print_json
from evo.errors import BadInput
from evo.progress.model import Progress
from evo.progress.snapshot import Snapshot
from evo.tui.child import can_show
from evo.tui.draw import picture
from evo.tui.palette import TERMINAL
from islands.errors import NoRuns
from islands.store import Store


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

    Without RUN it takes the newest that is running, else the newest.

    --json prints an object every few seconds until RUN has ended, or one with --once.

    It only reads the database, so it may run on any machine that reaches the database.
    """
    if svg is not None and (once or as_json):
        raise BadInput("--svg writes a picture: leave out --once and --json")
    console = open_console(markup=False)
    if name is None:
        name = choose_run(db)
    if plain or as_json or once or svg is not None or not can_show(console):
        if once:
            return print_picture(name, db, against, console, as_json)
        if svg is not None:
            return write_picture(name, db, against, Path(svg))
        return print_lines(name, db, against, console, as_json)
    from evo.tui.app import ScreenApp, run_screen

    with Store.open(db, read_only=True) as store:
        progress = Progress(store, name, against, live=True)
        return asyncio.run(run_screen(ScreenApp(lambda: progress, loading=f"reading {name}")))


def choose_run(db: str) -> str:
    """The run or comparison to watch: the newest that is running, else the newest; its name is printed to stderr.
    Raises NoRuns."""
    with Store.open(db, read_only=True) as store:
        runs = store.runs()
        if not runs:
            raise NoRuns(
                f"{store.address}: the database holds no runs yet; start one with: evo run maze:test --limit 10"
            )
    running = [run for run in runs if run.status == "running"]
    chosen = (running or runs)[-1]
    name = chosen.comparison or chosen.name
    click.echo(f"watching {name}, the newest that is running" if running else f"watching {name}", err=True)
    return name


ONCE_WIDTH, ONCE_HEIGHT = 100, 40


def print_lines(name: str, db: str, against: str | None, console: Console, as_json: bool) -> int:
    """Print a line every few seconds, until every run has ended. as_json: each line is an object"""
    began = time.monotonic()
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, name, against)
        while True:
            progress.refresh()
            snapshot = progress.snapshot()
            if as_json:
                print_json(snapshot.as_dict(time.time()))
            else:
                console.print(format_line(snapshot, time.time()), soft_wrap=True, markup=False)
            if snapshot.ended:
                for verdict in () if as_json else snapshot.verdict:
                    console.print(verdict.text, soft_wrap=True)
                return 0
            time.sleep(choose_pause(time.monotonic() - began))


def read_snapshot(name: str, db: str, against: str | None) -> Snapshot:
    with Store.open(db, read_only=True) as store:
        return Progress.open(store, name, against).snapshot()


def print_picture(name: str, db: str, against: str | None, console: Console, as_json: bool) -> int:
    """Print the screen as text, without its keys, which would do nothing. as_json: print its values instead"""
    snapshot, now = read_snapshot(name, db, against), time.time()
    if as_json:
        print_json(snapshot.as_dict(now))
        return 0
    width, height = (console.width, console.height) if console.is_terminal else (ONCE_WIDTH, ONCE_HEIGHT)
    page = Console(width=width, highlight=False, markup=False, emoji=False)
    with page.capture() as captured:
        page.print(picture(snapshot, width, height, now, TERMINAL))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines))
    return 0


def write_picture(name: str, db: str, against: str | None, file: Path) -> int:
    """Write the screen as an SVG. Raises BadInput if the file cannot be written."""
    from evo.tui.app import save_svg  # Textual: lines do not need it

    snapshot = read_snapshot(name, db, against)
    try:
        file.write_text(save_svg(snapshot, time.time()), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {file}: {error.strerror or error}") from None
    return 0
