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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from evo.api.drive import Job, ShownSearch
from evo.comparison.arms import planned
from evo.search.status import SearchStatus
from evo.search.stop import FINISHING, Stop
from islands.errors import DatabaseUnavailable
from islands.runs import read_totals
from islands.store import Store
from islands.types import RunRecord

T = TypeVar("T")
SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_READS = 1.0


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


def resumes(name: str) -> str:
    return f"{name}: interrupted with everything committed; evo.resume({name!r}) continues it"


class Background:
    """A driver (evo.api.drive) for Python callers, and the job that its work sees. Used once.

    name: of the stored run, once there is one
    interrupts: how often Ctrl-C was pressed
    progress: how far the work is, called from the caller's thread; gives None while it loads
    """

    def __init__(
        self,
        shown: bool,
        after: Callable[[str], str] = resumes,
        before: str = "interrupted before anything was stored",
    ) -> None:
        """shown: whether to show progress

        after, before: what to report of an interrupt: after something was stored, by its name, and before that
        """
        self._after, self._before = after, before
        self.name: str | None = None
        self.interrupts = 0
        self.progress: Callable[[], ProgressLine | None] = lambda: None
        self._display = Display(shown)
        self._interrupt: Callable[[Stop], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._ended = threading.Event()

    def drive(self, work: Callable[[Job], Coroutine[Any, Any, T]]) -> T:
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
    async def showing(self, search: ShownSearch) -> AsyncIterator[None]:
        self.name = search.name
        if (status := search.status) is not None:
            self.progress = lambda: progress_of(status)
            yield
            return
        stored = StoredProgress(search.db, search.name, search.comparison)
        self.progress = stored
        yield
        stored.expire()  # the last counts are shown too

    def _show(self) -> None:
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
        return Interrupted(self._after(self.name), self.name)

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


def progress_of(status: SearchStatus) -> ProgressLine:
    """A search's counters. Read while another thread writes them."""
    known = sum(problem.target is not None for problem in status.problem_runs)
    best = [problem.best for problem in status.problem_runs if problem.best is not None]
    parts = [f"{status.solved} of {known} solved" if known else ""]
    if best:
        title = "best" if len(status.problem_runs) == 1 else "mean best"
        parts.append(f"{title} {sum(best) / len(best):.4g}")
    parts.append(f"{status.answers:,} answers")
    return ProgressLine(status.run, status.groups, status.planned, "iterations", ", ".join(filter(None, parts)))


class StoredProgress:
    """The progress of a comparison or a run, from the metrics that its runs store about once a second. The database
    is read at most once a second."""

    def __init__(self, db: str, name: str, comparison: bool) -> None:
        """comparison: whether `name` is a comparison's, and not one run's"""
        self._db, self._name, self._comparison = db, name, comparison
        self._read = 0.0
        self._last: ProgressLine | None = None

    def expire(self) -> None:
        """Read again at the next call."""
        self._read = 0.0

    def __call__(self) -> ProgressLine | None:
        now = time.monotonic()
        if now - self._read >= SECONDS_BETWEEN_READS:
            self._read = now
            try:
                with Store.open(self._db, read_only=True) as store:
                    runs = store.runs(comparison=self._name) if self._comparison else [store.run(self._name)]
                    with store.read() as connection:
                        committed = read_totals(connection, [run.id for run in runs])
                    self._last = self._of(runs, {id: totals.groups for id, totals in committed.items()})
            except DatabaseUnavailable:
                pass  # busy for a moment; if it is gone, the searches report that
        return self._last

    def _of(self, runs: list[RunRecord], groups: Mapping[int, int]) -> ProgressLine:
        plans = [planned(run) * len(run.config.get("problems", ())) for run in runs]
        done = sum(plan if run.status == "done" else groups[run.id] for run, plan in zip(runs, plans, strict=True))
        solved: dict[str, int] = {}
        for run in runs:
            arm = str(run.arm or run.name)
            solved[arm] = solved.get(arm, 0) + int(run.summary.get("solved", 0))
        by_arm = ", ".join(f"{arm} {count}" for arm, count in solved.items()) if any(solved.values()) else ""
        return ProgressLine(self._name, done, sum(plans), "iterations", f"solved: {by_arm}" if by_arm else "")


STOPPING = "finishing the iterations in flight; press again to stop at once"
LOG_SECONDS = 10.0
"""Between two lines of an output that is no terminal."""


@dataclass(frozen=True)
class ProgressLine:
    """title: names the work; detail: figures next to it; done, total: in `unit`"""

    title: str
    done: int
    total: int
    unit: str
    detail: str = ""


class Display:
    """A bar of tqdm: on a terminal, below a notebook's cell, or as a line now and then; used in a `with` block."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
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
        if not self._shown:
            return
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
