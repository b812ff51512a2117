"""Runs work on an event loop in a separate thread, while the caller waits, shows progress and obeys Ctrl-C.

A notebook's cell runs inside an event loop already, which asyncio.run refuses; a thread works everywhere alike. The
first Ctrl-C lets the work finish the groups in flight, a second one stops it at once. Only the main thread may set a
signal's handler; the handler before it is put back.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from evo.api.drive import Driver
from evo.progress.model import Progress
from evo.progress.snapshot import Snapshot
from evo.search.stop import FINISHING, Stop
from islands.errors import DatabaseUnavailable
from islands.store import Store

T = TypeVar("T")
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_READS = 1.0
STOPPING = "finishing the iterations in flight; press again to stop at once"
LOG_SECONDS = 10.0
"""Between two lines of an output that is no terminal."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, after all groups in flight are committed. The message names the way to
    continue.

    name: of the run or comparison, or the directory of a training; None if nothing was stored yet
    """

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class ScorerWarning(UserWarning):
    """A scorer failed on some problems of a run; the others continued."""


@dataclass(frozen=True)
class ProgressLine:
    """title: names the work; detail: figures next to it; done, total: in `unit`"""

    title: str
    done: int
    total: int
    unit: str
    detail: str = ""


class StoredProgress:
    """The progress of a run or a comparison, from its database, which is read at most once a second."""

    def __init__(self, db: str, name: str) -> None:
        self._db, self._name = db, name
        self._next = 0.0
        self._store: Store | None = None
        self._last: ProgressLine | None = None

    def __call__(self) -> ProgressLine | None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_READS  # before it reads: `expire` may come meanwhile
            with contextlib.suppress(DatabaseUnavailable):  # busy; if it is gone, the searches report that
                if self._store is None:
                    self._store = Store.open(self._db, read_only=True)
                    self._progress = Progress(self._store, self._name)
                self._progress.refresh()
                self._last = _describe(self._progress.snapshot(statistics=False))
        return self._last

    def expire(self) -> None:
        """Read again at the next call."""
        self._next = 0.0

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


def _describe(snapshot: Snapshot) -> ProgressLine:
    """A run's solved problems, best fitness and answers; the problems that each arm of a comparison solved."""
    solved = {arm.name: arm.solved or (0, 0) for arm in snapshot.arms}
    if len(solved) > 1:
        by_arm = ", ".join(f"{arm} {count}" for arm, (count, _) in solved.items())
        detail = f"solved: {by_arm}" if any(count for count, _ in solved.values()) else ""
    else:
        (arm,) = snapshot.arms
        count, known = solved[arm.name]
        title = "best" if len(snapshot.problems) == 1 else "mean best"
        detail = f"{count} of {known} solved, " if known else ""
        detail += "" if arm.mean_best is None else f"{title} {arm.mean_best:.4g}, "
        detail += f"{arm.totals.answers:,} answers"
    return ProgressLine(snapshot.name, snapshot.groups, snapshot.planned, "iterations", detail)


class Background:
    """A driver (evo.api.drive) for Python callers. Used once.

    name: of the stored run, once there is one
    interrupts: how often Ctrl-C was pressed
    progress: how far the work is, called from the caller's thread; gives None while it loads
    """

    def __init__(
        self,
        shown: bool,
        after: str = "{0}: interrupted with everything committed; evo.resume({0!r}) continues it",
        before: str = "interrupted before anything was stored",
    ) -> None:
        """shown: whether to show progress

        after, before: what to report of an interrupt: after something was stored, by its name, and before that
        """
        self._after, self._before = after, before
        self.name: str | None = None
        self.interrupts = 0
        self.progress: Callable[[], ProgressLine | None] = lambda: None
        self._stored: StoredProgress | None = None
        self._display = Display(shown)
        self._interrupt: Callable[[Stop], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._ended = threading.Event()

    def drive(self, work: Callable[[Driver], Coroutine[Any, Any, T]]) -> T:
        """The result of the work. Raises its errors; Interrupted after a Ctrl-C, once it has ended."""
        outcome: list[T] = []
        errors: list[BaseException] = []

        async def main() -> T:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self.interrupts:  # before there was an event loop
                raise asyncio.CancelledError
            return await work(self)

        def run() -> None:
            try:
                outcome.append(asyncio.run(main()))
            except asyncio.CancelledError:
                pass
            except BaseException as error:  # raised in the caller's thread
                errors.append(error)
            finally:
                self._ended.set()

        context = copy_context()
        thread = threading.Thread(target=context.run, args=(run,), name="evo", daemon=True)
        with self._handling_interrupts(), self._display:
            thread.start()
            while not self._ended.is_set():
                try:
                    self._ended.wait(SECONDS_BETWEEN_LOOKS)
                    self._show()
                except KeyboardInterrupt:  # of a handler that is not ours, as in a debugger
                    self._press()
            thread.join()
            self._show()
            if self._stored is not None:
                self._stored.close()
        if errors:
            raise errors[0]
        if self.interrupts or not outcome:
            raise self._interrupted()
        return outcome[0]

    @contextlib.contextmanager
    def interruptible(self, interrupt: Callable[[Stop], None]) -> Iterator[None]:
        self._interrupt = interrupt
        try:
            yield
        finally:
            self._interrupt = None

    @contextlib.asynccontextmanager
    async def showing(self, db: str, name: str, against: str | None = None) -> AsyncIterator[None]:
        self.name = name
        self.progress = self._stored = StoredProgress(db, name)
        yield
        self._stored.expire()  # the last counts are shown too

    def _show(self) -> None:
        if self._display.shown:
            self._display.update(self.progress(), stopping=self.interrupts > 0)

    def _press(self) -> None:
        """One Ctrl-C, in the caller's thread."""
        self.interrupts += 1
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed, as the work has just ended
                self._loop.call_soon_threadsafe(self._obey, self.interrupts)

    def _obey(self, count: int) -> None:
        if count == 1 and self._interrupt is not None:
            self._interrupt(FINISHING)
        elif self._task is not None and (count > 1 or self.name is None):  # else it is ending already
            self._task.cancel()

    def _interrupted(self) -> Interrupted:
        if self.name is None:
            return Interrupted(self._before)
        return Interrupted(self._after.format(self.name), self.name)

    @contextlib.contextmanager
    def _handling_interrupts(self) -> Iterator[None]:
        """Ctrl-C comes to `_press`, if this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, lambda *_: self._press())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before or signal.default_int_handler)


class Display:
    """A bar of tqdm: on a terminal, below a notebook's cell, or as a line now and then; used in a `with` block."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self._bar: Any = None
        self._stopping = False

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):  # a closed stream is not a fault of the work
                self._bar.refresh()
                self._bar.close()

    def update(self, progress: ProgressLine | None, *, stopping: bool = False) -> None:
        """progress: None while it loads. stopping: Ctrl-C was pressed"""
        if stopping and not self._stopping:
            self._stopping = True
            print(f"interrupted; {STOPPING}", file=sys.stderr)
        if progress is None:
            return
        if self._bar is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a notebook without widgets, where it writes text
                from tqdm.auto import tqdm
            pause = 0.1 if sys.stderr.isatty() or "ipykernel" in sys.modules else LOG_SECONDS
            self._bar = tqdm(total=progress.total, unit=f" {progress.unit}", mininterval=pause, dynamic_ncols=True)
        self._bar.set_description_str(progress.title, refresh=False)
        self._bar.set_postfix_str(progress.detail, refresh=False)
        self._bar.total = progress.total
        self._bar.update(progress.done - self._bar.n)
