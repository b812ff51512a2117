"""Runs work in the foreground: on a screen, whose child process it then is, or without a terminal with a line every few
seconds."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import select
import shutil
import signal
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from evo.cli.options import OutputOptions, format_arguments, open_console, read_command
from evo.search.stop import FINISHING, Stop
from evo.tui.child import SHOWN, CommandProcess, can_show, is_shown
from problems.address import name_few

if TYPE_CHECKING:
    from evo.api.drive import Driver
    from evo.config.run import RunConfig
    from evo.progress.model import Progress

T = TypeVar("T")
FIRST_LINES_SECONDS = 5.0


def wants_screen(output: OutputOptions) -> bool:
    """Whether the command shows its search on a screen."""
    return not output.plain and not is_shown() and can_show(open_console(stderr=output.as_json))


def search_on_screen(
    name: str,
    output: OutputOptions,
    loading: str,
    arguments: Sequence[str] | None = None,
    *,
    against: str | None = None,
    options: Sequence[str] = (),
    quiet: bool = False,
) -> int:
    """Run `evo ARGUMENTS --plain` as a child and show its run or comparison `name`; then print what it printed. Returns
    its exit code.

    arguments: by default this process's; options: added to them; quiet: leave its stdout out if it ends well
    """
    from evo.tui.app import ScreenApp, run_screen  # Textual: lines do not need it

    given = list(sys.argv[1:] if arguments is None else arguments)
    size = shutil.get_terminal_size()
    settings = {"EVO_COMMAND": read_command(), SHOWN: "1", "COLUMNS": str(size.columns), "LINES": str(size.lines)}
    if not output.as_json:
        settings["FORCE_COLOR"] = "1"
    code = 1
    child = CommandProcess([given[0], "--plain", *options, *given[1:]], settings, held=True)
    try:
        app = ScreenApp(lambda: _open_progress(output.db, name, against), loading=f"loading {loading}", child=child)
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

    handlers: Mapping[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: interrupted,
        signal.SIGTERM: interrupted,
        # never as the second: several processes may send it
        **({} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else {signal.SIGHUP: lambda: interrupt(FINISHING)}),
    }
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


class Foreground:
    """A driver (evo.api.drive) for commands. It is used once."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def drive(self, work: Callable[[Driver], Coroutine[Any, Any, T]]) -> T:
        gc.freeze()  # the libraries of the database, imported after the command
        try:
            return asyncio.run(work(self))
        finally:
            _leave_closed_terminal()

    def interruptible(self, interrupt: Callable[[Stop], None]) -> AbstractContextManager[None]:
        return handling_interrupts(interrupt)

    @contextlib.asynccontextmanager
    async def showing(self, db: str, name: str, against: str | None = None) -> AsyncIterator[None]:
        """Lines read the database, as `evo watch` does; a screen does so itself."""
        if is_shown():
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


def foreground(output: OutputOptions) -> tuple[Console, Foreground]:
    """(the console that the outcome is printed on, the driver of the command's work)"""
    console = open_console(stderr=output.as_json)
    return console, Foreground(console)


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
    from evo.cli.watch import print_lines_during

    await print_lines_during(db, name, console, against, began)
