"""How a command shows its work: on a screen, which a child process paints, or without a terminal with a line every few
seconds; a training and an evaluation by a bar."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from evo.api.display import LOG_SECONDS, STOPPING, Bar, Display, Steps, format_line
from evo.cli.options import OutputOptions, format_arguments
from evo.process import ENDS, handling
from evo.tui.child import WatchedSearch, can_show
from problems.address import name_few
from problems.child_process import python_path

if TYPE_CHECKING:
    from evo.api.drive import Driver
    from evo.config.run import RunConfig
    from evo.progress.snapshot import Snapshot

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0


class Screen(Display):
    """The screen of a search, which a child process paints from the database (paint_screen). What this process prints
    meanwhile is kept, and printed at the end."""

    def __init__(self, loading: str, against: str | None) -> None:
        """loading: what is loaded first; against: the reference arm of a comparison"""
        self._loading, self._against = loading, against

    def __enter__(self) -> Screen:
        _flush()
        orders, writing = os.pipe()
        self._orders = os.fdopen(writing, "w", encoding="utf-8")
        self._terminal = [os.dup(1), os.dup(2)]
        self._kept = [tempfile.TemporaryFile() for _ in self._terminal]  # noqa: SIM115
        program = f"from evo.cli.live import paint_screen; paint_screen({orders}, {self._loading!r})"
        environment = {**os.environ, "PYTHONPATH": python_path()}
        painted = self._terminal[os.isatty(2)]  # as stderr, where Textual paints
        command = [sys.executable, "-P", "-c", program]
        self._child = subprocess.Popen(command, env=environment, pass_fds=[orders], stderr=painted)
        os.close(orders)
        self._hearing = handling(self._stop_with_child, signal.SIGCHLD)
        self._hearing.__enter__()
        for number, file in enumerate(self._kept, 1):
            os.dup2(file.fileno(), number)
        return self

    def begin(self, db: str, name: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the screen broke: the search goes on
            self._orders.write(json.dumps([db, name, self._against]) + "\n")
            self._orders.flush()

    def _stop_with_child(self, _: int) -> None:
        """After Ctrl-Z on the screen: the shell waits for this process."""
        with contextlib.suppress(ChildProcessError):  # it has ended, which stops nothing
            if os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WNOHANG) is not None:
                os.kill(os.getpid(), signal.SIGSTOP)

    def __exit__(self, *exception: object) -> None:
        self._hearing.__exit__(None, None, None)
        with contextlib.suppress(BrokenPipeError):
            self._orders.close()  # the screen ends
        self._child.wait()
        _flush()
        for number, terminal in enumerate(self._terminal, 1):
            os.dup2(terminal, number)
            os.close(terminal)
        _leave_closed_terminal()
        for number, file in enumerate(self._kept, 1):
            with file, open(number, "wb", closefd=False) as stream:
                file.seek(0)
                stream.write(file.read())


def paint_screen(orders: int, loading: str) -> None:
    """Paint the screen of the parent's search until it ends. Signals are for that search to answer.

    orders: the descriptor that they come by; loading: what is loaded first, in a few words
    """
    for number in ENDS:
        signal.signal(number, signal.SIG_IGN)
    from evo.tui.app import ScreenApp, leave_with_terminal  # Textual: lines do not need it

    leave_with_terminal(0)
    with open(orders, encoding="utf-8") as file:
        search = WatchedSearch(file)
        app = ScreenApp(search.open_progress, loading=f"loading {loading}", child=search)
        asyncio.run(app.run_async())
    if app.failure is not None:
        told = f"{type(app.failure).__name__}: {app.failure}"
        print(f"evo: warning: the screen failed, the search did not: {told}", file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


class Lines(Display):
    """A line every few seconds; of a stored run as in `evo watch`."""

    def __init__(self, console: Console, first: str = "") -> None:
        """first: a line to print once nothing of the input can be refused any more"""
        self._console, self._first = console, first
        self._began = self._last = 0.0

    def __exit__(self, *exception: object) -> None:
        _leave_closed_terminal()

    def begin(self, db: str, name: str) -> None:
        if self._first:
            self.note(self._first)
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


def choose_pause(elapsed: float) -> float:
    """Seconds until the next line, `elapsed` seconds after the begin."""
    return PLAIN_SECONDS if elapsed < 60 else PLAIN_SECONDS_LATER


def choose_display(console: Console, plain: bool) -> Display:
    """Of a training or an evaluation."""
    return Bar(console.file) if console.is_terminal and not plain else Lines(console)


def search_driver(
    console: Console,
    output: OutputOptions,
    configs: Sequence[RunConfig],
    *,
    against: str | None = None,
    first: str = "",
) -> Driver:
    """The driver of a command that searches. configs: of what is loaded; first: a line on the search that comes"""
    from evo.api.drive import Driver  # slow to import: the database's library

    if output.plain or not can_show(console):
        return Driver(Lines(console, first), command=True)
    policies = list(dict.fromkeys(config.policy for config in configs))
    problems = list(dict.fromkeys(name for config in configs for name in config.problems))
    loading = f"{name_few(policies, 4)} for {name_few(problems, 4)}. {first}".rstrip(" .")
    return Driver(Screen(loading, against), command=True)


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
