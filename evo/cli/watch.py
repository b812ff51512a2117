"""`evo watch`: a run or a comparison on a live screen, as a line every few seconds, or once as text. It only reads."""

from __future__ import annotations

import asyncio
import time

import click
from rich.console import Console

from evo.api.display import format_line
from evo.cli.live import choose_pause
from evo.cli.options import db_option, json_option, open_console, plain_option, print_json
from evo.errors import BadInput
from evo.progress.model import Progress
from evo.progress.training import is_training
from evo.tui.child import can_show
from evo.tui.draw import picture
from evo.tui.palette import TERMINAL
from islands.comparisons import runs_named
from islands.errors import NoRuns, UnknownRun
from islands.store import Store

_ONCE_WIDTH, _ONCE_HEIGHT = 100, 40


@click.command("watch")
@click.argument("name", metavar="[RUN]", required=False)
@db_option
@click.option("--against", metavar="ARM", help="The arm that others are measured against.  [default: the first]")
@plain_option
@json_option
@click.option("--once", is_flag=True, help="Print one picture of the screen and end.")
def watch_command(name: str | None, db: str, against: str | None, plain: bool, as_json: bool, once: bool) -> int:
    """Watch RUN, a search or a comparison, while it runs or after; q closes the screen, and the run continues.

    Without RUN it takes the newest that is running, else the newest. It waits for a RUN that has not begun.

    --json prints an object every few seconds until RUN has ended, or one with --once.

    It only reads the database, so it may run on any machine that reaches the database.
    """
    console = open_console(markup=False)
    on_screen = not (plain or as_json or once) and can_show(console)
    if name is not None and not once:
        wait_for_run(db, name)
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, name or choose_run(store), against)
        if on_screen:
            from evo.tui.app import ScreenApp, run_screen  # Textual: lines do not need it

            return asyncio.run(run_screen(ScreenApp(lambda: progress, loading=f"reading {progress.name}")))
        if once and not as_json:
            print_picture(progress, console)
        else:
            print_lines(progress, console, as_json, once)
    return 0


def wait_for_run(db: str, name: str) -> None:
    """Wait until a run or a comparison has begun. Raises NoRuns, UnknownRun for a name like another's, and BadInput for
    a training, which `evo show` shows."""
    waiting = False
    while True:
        try:
            with Store.open(db, read_only=True) as store:
                runs_named(store, name)
            return
        except (NoRuns, UnknownRun) as error:
            if is_training(name):
                raise BadInput(f"{name} is the folder of a training: evo show {name}") from None
            if "did you mean" in str(error):
                raise
            if not waiting:
                click.echo(f"waiting for {name}, which has not begun; Ctrl-C ends ({error})", err=True)
            waiting = True
        time.sleep(0.5)


def choose_run(store: Store) -> str:
    """The run or comparison to watch: the newest that is running, else the newest of the user's; its name is printed to
    stderr. Raises NoRuns."""
    runs = store.runs()
    if not runs:
        raise NoRuns(f"{store.address}: the database holds no runs yet; start one with: evo run maze:test --limit 10")
    running = [run for run in runs if run.status == "running"]
    chosen = (running or [run for run in runs if run.verifies is None] or runs)[-1]
    name = chosen.listed_name
    click.echo(f"watching {name}, the newest that is running" if running else f"watching {name}", err=True)
    return name


def print_lines(progress: Progress, console: Console, as_json: bool, once: bool) -> None:
    """Print a line every few seconds, until all has ended, then the verdicts; or one. as_json: each line is an
    object"""
    began = time.monotonic()
    while True:
        progress.refresh()
        snapshot, now = progress.snapshot(), time.time()
        if as_json:
            print_json(snapshot.as_dict(now))
        else:
            verdicts = [verdict.text for verdict in snapshot.verdict] * snapshot.ended
            console.print("\n".join([format_line(snapshot, now), *verdicts]), soft_wrap=True, markup=False)
        if snapshot.ended or once:
            return
        time.sleep(choose_pause(time.monotonic() - began))


def print_picture(progress: Progress, console: Console) -> None:
    """Print the screen as text, without its keys, which would do nothing."""
    progress.refresh()
    width, height = (console.width, console.height) if console.is_terminal else (_ONCE_WIDTH, _ONCE_HEIGHT)
    page = Console(width=width, highlight=False, markup=False, emoji=False)
    with page.capture() as captured:
        page.print(picture(progress.snapshot_with_best(), width, height, time.time(), TERMINAL))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines))
