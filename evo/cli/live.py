"""Runs work in the foreground and shows its progress: on a live screen, or without a terminal as lines.

Screen and lines are imported when they are needed: their import takes longer than a short search.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import select
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from evo.cli.options import OutputOptions, format_arguments, open_console
from evo.search.stop import FINISHING, Stop
from evo.tui.terminal import can_show
from problems.address import name_few

if TYPE_CHECKING:
    from evo.api.drive import Job, ShownSearch
    from evo.config.run import RunConfig
    from evo.tui.screen import LiveScreen

T = TypeVar("T")
FIRST_LINES_SECONDS = 5.0


class Foreground:
    """A driver (evo.api.drive) for commands, and the job that the driven work gets. It is used once."""

    def __init__(self, console: Console, plain: bool, loading: str) -> None:
        """loading: the text that the screen shows until something is stored"""
        self._console, self._plain, self._loading = console, plain, loading
        self._screen: LiveScreen | None = None

    def drive(self, work: Callable[[Job], Coroutine[Any, Any, T]]) -> T:
        gc.freeze()  # the libraries of the database and the screen, imported after the command
        return asyncio.run(self._drive(work))

    async def _drive(self, work: Callable[[Job], Coroutine[Any, Any, T]]) -> T:
        try:
            if self._plain or not can_show(self._console):
                return await work(self)
            from evo.tui.screen import open_screen

            async with open_screen(self._console, self._loading) as screen:
                self._screen = screen
                return await work(self)
        finally:
            _leave_closed_terminal()

    @contextlib.contextmanager
    def interruptible(self, interrupt: Callable[[Stop], None]) -> Iterator[None]:
        with handling_interrupts(interrupt):
            yield

    @contextlib.asynccontextmanager
    async def showing(self, search: ShownSearch) -> AsyncIterator[None]:
        """Screen and lines read the database, as `evo watch` does."""
        db, name, against = search.db, search.name, search.against
        if self._screen is not None:
            self._screen.watch(db, name, search.controls, against)
            yield
            return
        hint = f"Started {name}. Watch it with: evo watch {format_arguments(name, db)}"
        self._console.print(hint, soft_wrap=True, markup=False)
        lines = asyncio.create_task(_print_lines(db, name, self._console, against))
        try:
            yield
        finally:
            lines.cancel()
            await asyncio.gather(lines, return_exceptions=True)


def foreground(output: OutputOptions, loading: str) -> tuple[Console, Foreground]:
    """(the console that the outcome is printed on, the driver of the command's work)"""
    console = open_console(stderr=output.as_json)
    return console, Foreground(console, output.plain, f"loading {loading}")


@contextlib.contextmanager
def handling_interrupts(interrupt: Callable[[Stop], None]) -> Iterator[None]:
    """The first Ctrl-C (or TERM signal) finishes what is in flight; the second stops at once. Closing the terminal acts
    as the first, unless the signal is ignored, as under nohup."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    seen = [0]

    def interrupted() -> None:
        seen[0] += 1
        if seen[0] == 1:
            # another Ctrl-C may come while a connection is closed, and SQLAlchemy would log its traceback
            logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
            interrupt(Stop(FINISHING.reason, f"{FINISHING} (again to stop at once)"))
        else:
            task.cancel()

    handlers = {signal.SIGINT: interrupted, signal.SIGTERM: interrupted}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = lambda: interrupt(FINISHING)  # never as the second: several processes may send it
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


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


async def _print_lines(db: str, name: str, console: Console, against: str | None) -> None:
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(FIRST_LINES_SECONDS)
    from evo.cli.lines import print_lines_during

    await print_lines_during(db, name, console, against, began)
