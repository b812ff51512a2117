"""The screen of a live search: a separate process, so that painting takes no time from the search.

It reads the database as any watcher would; the viewer's commands (stop, pause) come back over its pipe. If it
breaks, the search continues. This end holds the terminal: whatever the search writes meanwhile is held back and shown
afterwards, and the terminal is given back as it was, however the screen ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from enum import StrEnum
from typing import Any, Protocol

from rich.console import Console

from evo.tui.terminal import GivenTerminal, descriptor, held_output
from problems.child_process import ChildProcess

END_SECONDS = 5.0
"""Seconds for the screen to end by itself."""
PROGRAM = "evo.tui.live_process:main"


class Act(StrEnum):
    """A viewer's commands to a live search."""

    STOP = "stop"
    INTERRUPT = "interrupt"
    PAUSE = "pause"
    RESUME = "resume"


class ScreenControls(Protocol):
    """The controls that a live search gives its screen. Called on the event loop that opened the screen."""

    @property
    def paused(self) -> bool: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...


class LiveScreen:
    """A screen that is up, or on its way."""

    def __init__(self, fd: int, text: str) -> None:
        self.failed: str | None = None
        self.up = False
        self._controls: ScreenControls | None = None
        self._loop = asyncio.get_running_loop()
        self.process = ChildProcess(
            PROGRAM,
            lost=lambda code, _: ChildProcessError(code),
            receive=self._obey,
            environment={"TEXTUAL_ALLOW_SIGNALS": "1", "TEXTUAL_DISABLE_KITTY_KEY": "1"},
            stdin=None,
            stdout=fd,
            stderr=fd,
        )
        self.loading(text)

    def loading(self, text: str) -> None:
        """Show the loading step."""
        self.process.tell("loading", text)

    def watch(self, db: str, name: str, controls: ScreenControls, against: str | None = None) -> None:
        """Show the run, or the comparison, which is in the database by now."""
        self._controls = controls
        self.process.tell("watch", (db, name, against, controls.paused))

    def _obey(self, message: tuple[str, str]) -> None:
        """In the reader's thread, since the event loop may be busy with what is loaded."""
        kind, content = message
        if kind == "up":
            self.up = True
        elif kind == "failed":
            self.failed = content
        else:
            self._loop.call_soon_threadsafe(self._act, Act(content))

    def _act(self, act: Act) -> None:
        if act is Act.INTERRUPT or self._controls is None:
            os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C, sent by the terminal as a key
        elif act is Act.STOP:
            self._controls.stop()
        elif act is Act.PAUSE:
            self._controls.pause()
        else:
            self._controls.resume()

    async def close(self) -> int:
        """End it and return its exit code, 0 if it cleaned up. Takes at most END_SECONDS."""
        grace = END_SECONDS if self.up else 0.0  # still loading, it has painted nothing
        code = await asyncio.shield(asyncio.to_thread(self.process.end, grace))
        return code if self.up else 0


@contextlib.asynccontextmanager
async def open_screen(console: Console, loading: str) -> AsyncIterator[LiveScreen]:
    """A screen on the console's terminal until the block ends, first showing the loading steps.

    The terminal must be one that `can_show`; afterwards it is as before, however the block ends. A screen that broke is
    a warning then.
    """
    fd = descriptor(console.file)
    assert fd is not None
    painting = os.dup(fd)
    terminal = GivenTerminal(painting)
    screen: LiveScreen | None = None
    code = 0
    try:
        with held_output(), _obeying_suspension(lambda: screen):
            try:
                screen = LiveScreen(painting, loading)
                yield screen
            finally:
                if screen is not None:
                    code = await screen.close()
                terminal.restore(painted=code != 0)
    finally:
        os.close(painting)
    if screen is not None and (screen.failed is not None or code):
        why = screen.failed or f"it ended with code {code}"
        warnings.warn(f"the live screen failed, the search did not: {why}", stacklevel=2)


@contextlib.contextmanager
def _obeying_suspension(screen: Callable[[], LiveScreen | None]) -> Iterator[None]:
    """Ctrl-Z stops this process only when the screen's has stopped, which gives the terminal back first: the shell
    takes it over as soon as this one has stopped. Only the main thread can; others do nothing."""
    on_main = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGTSTP")
    if not on_main or signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield
        return

    def suspend(number: int, stack: Any) -> None:
        shown = screen()
        # the terminal sends it to both, and each may get it only once; a signal only for this process is passed on
        if shown is not None and not _stops(shown.process.pid, 0.3):
            with contextlib.suppress(OSError):
                os.kill(shown.process.pid, signal.SIGTSTP)
            _stops(shown.process.pid, 1.0)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(0.1)
        if shown is not None and _state(shown.process.pid) == "T":
            with contextlib.suppress(OSError):
                os.kill(shown.process.pid, signal.SIGCONT)

    signal.signal(signal.SIGTSTP, suspend)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def _stops(pid: int, seconds: float) -> bool:
    """Whether the process has stopped, or is gone, after so long."""
    until = time.monotonic() + seconds
    while (stopped := _state(pid) in ("T", "Z", "")) is False and time.monotonic() < until:
        time.sleep(0.01)
    return stopped


def _state(pid: int) -> str:
    """T for a process that is stopped; "" if that is unknown."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]
    return ""
