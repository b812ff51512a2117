"""Runs work in the foreground: on a screen, whose child process it then is, or without a terminal with a line every few
seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console

from evo.api.display import LOG_SECONDS, STOPPING, Bar, Display, Steps, format_line
from evo.cli.options import OutputOptions, format_arguments, open_console, read_command
from evo.tui.child import SHOWN_VARIABLE, CommandProcess, can_show, is_shown
from problems.address import name_few

if TYPE_CHECKING:
    from evo.api.drive import Driver
    from evo.config.run import RunConfig
    from evo.progress.model import Progress
    from evo.progress.snapshot import Snapshot

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0


def wants_screen(output: OutputOptions) -> bool:
    """Whether the command shows its search on a screen."""
    return not output.plain and not is_shown() and can_show(open_console(stderr=output.as_json))


def search_on_screen(
    name: str | None,
    output: OutputOptions,
    loading: str,
    arguments: Sequence[str] | None = None,
    *,
    against: str | None = None,
    quiet: bool = False,
) -> int:
    """Run `evo ARGUMENTS --plain` as a child and show its run or comparison `name`; then print what it printed. Returns
    its exit code.

    name: None for a free one, which the child is given; arguments: by default this process's
    quiet: leave its stdout out if it ends well
    """
    from evo.tui.app import ScreenApp, run_screen  # Textual: lines do not need it

    given = list(sys.argv[1:] if arguments is None else arguments)
    if name is None:
        name = choose_name(output.db)
        given[1:1] = ["--name", name]
    shown = name
    size = shutil.get_terminal_size()
    size_of = {"COLUMNS": str(size.columns), "LINES": str(size.lines)}
    settings = {"EVO_COMMAND": read_command(), SHOWN_VARIABLE: "1", **size_of}
    if not output.as_json:
        settings["FORCE_COLOR"] = "1"
    code = 1
    child = CommandProcess([given[0], "--plain", *given[1:]], settings, held=True)
    try:
        app = ScreenApp(lambda: _open_progress(output.db, shown, against), loading=f"loading {loading}", child=child)
        with contextlib.suppress(BrokenPipeError):
            code = asyncio.run(run_screen(app))
    except Exception as error:  # the screen broke: the search goes on, and this process waits for it
        print(f"evo: warning: the screen failed, the search did not: {type(error).__name__}: {error}", file=sys.stderr)
        code = child.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: child.send_signal(signal.SIGINT))
        _leave_closed_terminal()
        child.end(output=code != 0 or not quiet)
    return code if code >= 0 else 1


def _open_progress(db: str, name: str, against: str | None) -> Progress | None:
    """The reader; None while the run is not stored yet."""
    from evo.progress.model import Progress
    from islands.errors import DatabaseUnavailable, UnknownRun
    from islands.store import Store

    try:
        store = Store.open(db, read_only=True)
    except DatabaseUnavailable:
        return None
    try:
        return Progress(store, name, against, live=True)
    except (UnknownRun, DatabaseUnavailable):
        store.close()
        return None


def silent_if(shown: bool) -> AbstractContextManager[object]:
    """Keep warnings of checks silent that the child of a screen repeats."""
    return warnings.catch_warnings(action="ignore") if shown else contextlib.nullcontext()


def choose_name(db: str) -> str:
    """A free name for a run or a comparison."""
    from islands.errors import DatabaseUnavailable
    from islands.names import readable_name
    from islands.store import Store

    try:
        with Store.open(db, read_only=True) as store:
            taken = {name for run in store.runs() for name in (run.name, run.comparison)}
    except DatabaseUnavailable:
        taken = set()
    return next(name for attempt in range(100) if (name := readable_name(attempt)) not in taken)


class Lines(Display):
    """A line every few seconds; of a stored run as in `evo watch`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = self._last = 0.0

    def __exit__(self, *exception: object) -> None:
        _leave_closed_terminal()

    def begin(self, db: str, name: str) -> None:
        self.note(f"Started {name}. Watch it with: evo watch {format_arguments(name, db)}")

    def pause(self, elapsed: float) -> float | None:
        return choose_pause(elapsed)

    def show(self, snapshot: Snapshot) -> None:
        self.note(format_line(snapshot, time.time()))

    def update(self, steps: Steps) -> None:
        now = time.monotonic()
        if not self._began:
            self._began = self._last = now
            self.note(steps.title)
        elif now - self._last >= LOG_SECONDS and steps.done < steps.total:
            self._last = now
            self.note(f"{now - self._began:.0f} s  {steps.done}/{steps.total} {steps.unit}  {steps.detail}".rstrip())

    def note(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, markup=False)

    def stopping(self) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone
            print(STOPPING, file=sys.stderr)


def choose_display(console: Console, plain: bool) -> Display:
    """Of a training or an evaluation."""
    return Bar(console.file) if console.is_terminal and not plain else Lines(console)


def choose_pause(elapsed: float) -> float:
    """Seconds until the next line, `elapsed` seconds after the begin."""
    return PLAIN_SECONDS if elapsed < 60 else PLAIN_SECONDS_LATER


def foreground(console: Console) -> Driver:
    """The driver of a command's search."""
    from evo.api.drive import Driver  # slow to import: the database's library

    return Driver(Display() if is_shown() else Lines(console), foreground=True)


def name_configs(configs: Sequence[RunConfig]) -> str:
    """The policies and problems that are loaded, in a few words."""
    policies = list(dict.fromkeys(config.policy for config in configs))
    problems = list(dict.fromkeys(name for config in configs for name in config.problems))
    return f"{name_few(policies, 4)} for {name_few(problems, 4)}"


def _leave_closed_terminal() -> None:
    """Discard later output if the terminal is gone, because writing to it would be an error."""
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    gone = [descriptor for descriptor, events in poll.poll(0) if events & (select.POLLERR | select.POLLHUP)]
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in gone:
        os.dup2(null, descriptor)
    os.close(null)
