"""`evo watch`: a run or a comparison on a live screen, as a line every few seconds, or as a picture. It only reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from evo.api.display import format_line
from evo.cli.live import choose_pause
from evo.cli.options import db_option, json_option, open_console, plain_option, print_json
from evo.errors import BadInput, at_file
from evo.progress.model import Progress
from evo.progress.training import TrainingProgress, is_training
from evo.training.display import format_metrics
from evo.tui.child import can_show
from evo.tui.draw import picture
from evo.tui.palette import TERMINAL
from islands.comparisons import runs_named
from islands.errors import NoRuns, UnknownRun
from islands.store import Store

Line = tuple[dict[str, Any], str, bool, list[str]]
"""What is read at a moment: for JSON, as a line, whether all has ended, and the lines that then follow."""


@click.command("watch")
@click.argument("name", metavar="[RUN]", required=False)
@db_option
@click.option("--against", metavar="ARM", help="The arm that others are measured against.  [default: the first]")
@plain_option
@json_option
@click.option("--once", is_flag=True, help="Print one picture of the screen and end.")
@click.option("--svg", metavar="FILE", help="Write one picture of 100x44 characters and end.")
def watch_command(
    name: str | None,
    db: str,
    against: str | None,
    plain: bool,
    as_json: bool,
    once: bool,
    svg: str | None,
) -> int:
    """Watch RUN, a search, a comparison or the folder of a training, while it runs or after; q closes the screen, and
    the run continues.

    Without RUN it takes the newest that is running, else the newest. It waits for a RUN that has not begun.

    --json prints an object every few seconds until RUN has ended, or one with --once.

    It only reads the database, so it may run on any machine that reaches the database.
    """
    if svg is not None and (once or as_json):
        raise BadInput("--svg writes a picture: leave out --once and --json")
    console = open_console(markup=False)
    on_screen = not (plain or as_json or once or svg) and can_show(console)
    if name is not None and not (once or svg):
        wait_for_run(db, name)
    if name is not None and is_training(name):
        if svg is not None:
            raise BadInput(f"--svg draws searches; write the page of a training: evo report {name}")
        return watch_training(name, console, on_screen, as_json, once)
    with Store.open(db, read_only=True) as store:
        progress = Progress(store, name or choose_run(store), against, live=on_screen)
        if on_screen:
            from evo.tui.app import ScreenApp, run_screen  # Textual: lines do not need it

            return asyncio.run(run_screen(ScreenApp(lambda: progress, loading=f"reading {progress.name}")))
        if svg is not None:
            from evo.tui.app import save_svg

            progress.refresh()
            with at_file(f"cannot write {svg}"):
                Path(svg).write_text(save_svg(progress.snapshot_with_best(), time.time()), encoding="utf-8")
        elif once and not as_json:
            print_picture(progress, console)
        else:
            print_lines(partial(_read_search, progress), console, as_json, once)
    return 0


def watch_training(folder: str, console: Console, on_screen: bool, as_json: bool, once: bool) -> int:
    """Show a training until it has ended, or once."""
    from evo.tui.training import TrainingScreen, draw_training

    if on_screen:
        TrainingScreen(folder).run()
    elif once and not as_json:
        width = console.width if console.is_terminal else ONCE_WIDTH
        console.print(draw_training(TrainingProgress.open(folder), width, ONCE_HEIGHT))
    else:
        print_lines(partial(_read_training, folder), console, as_json, once)
    return 0


def wait_for_run(db: str, name: str) -> None:
    """Wait until a run, a comparison or a training has begun. Raises NoRuns, UnknownRun for a name like another's."""
    told = False
    while not is_training(name):
        try:
            with Store.open(db, read_only=True) as store:
                runs_named(store, name)
            return
        except (NoRuns, UnknownRun) as error:
            if "did you mean" in str(error):
                raise
            if not told:
                click.echo(f"waiting for {name}, which has not begun; Ctrl-C ends ({error})", err=True)
            told = True
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


ONCE_WIDTH, ONCE_HEIGHT = 100, 40


def print_lines(read: Callable[[], Line], console: Console, as_json: bool, once: bool) -> None:
    """Print a line every few seconds, until all has ended, or one. as_json: each line is an object"""
    began = time.monotonic()
    while True:
        value, line, ended, last = read()
        if as_json:
            print_json(value)
        else:
            console.print("\n".join([line, *last * ended]), soft_wrap=True, markup=False)
        if ended or once:
            return
        time.sleep(choose_pause(time.monotonic() - began))


def _read_search(progress: Progress) -> Line:
    progress.refresh()
    snapshot, now = progress.snapshot(), time.time()
    return snapshot.as_dict(now), format_line(snapshot, now), snapshot.ended, [one.text for one in snapshot.verdict]


def _read_training(folder: str) -> Line:
    training = TrainingProgress.open(folder)
    line = "  ".join([training.standing, *map(format_metrics, training.lines[-1:])])
    return training.as_dict(), line, training.state != "running", [training.gain] * bool(training.gain)


def print_picture(progress: Progress, console: Console) -> None:
    """Print the screen as text, without its keys, which would do nothing."""
    progress.refresh()
    width, height = (console.width, console.height) if console.is_terminal else (ONCE_WIDTH, ONCE_HEIGHT)
    page = Console(width=width, highlight=False, markup=False, emoji=False)
    with page.capture() as captured:
        page.print(picture(progress.snapshot_with_best(), width, height, time.time(), TERMINAL))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines))
