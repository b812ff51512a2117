"""Drives work to its end: on an event loop, shown on a display, and stopped by Ctrl-C. Searches and comparisons end in
an outcome, which the Python functions turn into a result or an exception, and the command line into lines and an exit
code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from evo.api.display import Display
from evo.config.compare import CompareOptions
from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.runs.finish import Ended, SearchOutcome, read_ended, run_to_end
from evo.runs.preflight import check_new_comparison
from evo.runs.start import UNCHANGED, Changes, OpenRun
from evo.search.stop import FINISHING, Stop
from islands.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from evo.comparison.workers import SeedBatch
    from evo.progress.model import Progress
    from evo.progress.snapshot import Snapshot
    from evo.report.trackers import Tracking
    from evo.runs.resume import Resumption

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, after all groups in flight are committed. The message names the way to
    continue.

    name: of the run or comparison, or the directory of a training; None if nothing was stored yet
    """

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class Driver:
    """Runs work to its end, once, and is what the work reports to.

    A command works in the main thread. For a Python caller a thread works, since a notebook's cell is inside an event
    loop already, which asyncio.run refuses.

    name: of the stored run, once there is one
    tracking: the experiment trackers that it reports to
    interrupts: how often Ctrl-C was pressed
    """

    def __init__(
        self,
        display: Display,
        *,
        foreground: bool = False,
        after: str = "{0}: interrupted with everything committed; evo.resume({0!r}) continues it",
        before: str = "interrupted before anything was stored",
    ) -> None:
        """foreground: work in this thread, obey TERM and the end of the terminal too, and give the result of work that
        was interrupted and ended by itself

        after, before: what to report of an interrupt: after something was stored, by its name, and before that
        """
        self.display, self._foreground = display, foreground
        self._after, self._before = after, before
        self.name: str | None = None
        self.tracking: Tracking | None = None
        self.interrupts = 0
        self._interrupt: Callable[[Stop], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def drive(self, work: Callable[[Driver], Coroutine[Any, Any, T]]) -> T:
        """The result of the work. Raises its errors; Interrupted after a Ctrl-C, once it has ended."""
        results: list[T] = []
        errors: list[BaseException] = []

        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self.interrupts:  # before there was an event loop
                raise asyncio.CancelledError
            results.append(await work(self))

        def run() -> None:
            try:
                asyncio.run(main())
            except asyncio.CancelledError:
                pass
            except BaseException as error:  # raised in the caller's thread
                errors.append(error)

        with self.tracking or contextlib.nullcontext(), self._handling_signals(), self.display:
            if self._foreground:
                run()
            else:
                thread = threading.Thread(target=copy_context().run, args=(run,), name="evo", daemon=True)
                thread.start()
                while thread.is_alive():
                    try:
                        thread.join(0.2)
                    except KeyboardInterrupt:  # of a handler that is not ours, as in a debugger
                        self._press()
        if errors:
            raise errors[0]
        if not results or (self.interrupts and not self._foreground):
            raise Interrupted(self._before if self.name is None else self._after.format(self.name), self.name)
        return results[0]

    def track(self, names: Sequence[str], key: str) -> Driver:
        """Report the work to trackers, as Tracking takes them; none if there are no names."""
        if names:
            from evo.report.trackers import Tracking

            self.tracking = Tracking(names, key)
        return self

    @contextlib.contextmanager
    def interruptible(self, interrupt: Callable[[Stop], None]) -> Iterator[None]:
        """While the block runs, a first Ctrl-C calls `interrupt`, on the event loop of the work, and a second one
        cancels the work. Outside it the first one cancels, unless the work is stored and ends by itself."""
        self._interrupt = interrupt
        try:
            yield
        finally:
            self._interrupt = None

    @contextlib.asynccontextmanager
    async def showing(self, db: str, name: str, against: str | None = None) -> AsyncIterator[None]:
        """In this block the stored run or comparison is shown, as its database has it. against: its reference arm"""
        self.name = name
        self.display.begin(db, name)
        if self.tracking is not None:
            from evo.report.trackers import TrackedRun

            await asyncio.to_thread(self.tracking.follow, partial(TrackedRun, db, name, against))
        ended = asyncio.Event()
        watching = asyncio.create_task(self._watch(db, name, against, ended))
        try:
            yield
        finally:
            ended.set()
            await watching

    async def _watch(self, db: str, name: str, against: str | None, ended: asyncio.Event) -> None:
        began = time.monotonic()
        opened: list[Progress] = []

        def read() -> Snapshot:
            if not opened:
                from evo.progress.model import Progress  # a search without a display does without it
                from islands.store import Store

                opened.append(Progress(Store.open(db, read_only=True), name, against))
            opened[0].refresh()
            return opened[0].snapshot(statistics=False)

        try:
            while (pause := self.display.pause(time.monotonic() - began)) is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), pause)
                last = ended.is_set()
                if last and not self.display.shows_end:
                    return
                with contextlib.suppress(DatabaseUnavailable, OSError):  # the searches report it; a terminal is gone
                    self.display.show(await asyncio.to_thread(read))
                if last:
                    return
        finally:
            for progress in opened:
                progress.store.close()

    @contextlib.contextmanager
    def _handling_signals(self) -> Iterator[None]:
        """Ctrl-C comes to `_press`, if this is the main thread: no other may set a handler."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT]
        if self._foreground:
            ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as under nohup
            numbers += [signal.SIGTERM] if ignored else [signal.SIGTERM, signal.SIGHUP]
        before = {number: signal.signal(number, lambda number, _: self._press(number)) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    def _press(self, number: int = signal.SIGINT) -> None:
        """One Ctrl-C, in the caller's thread. The end of a terminal is never the second one: several processes may
        send it."""
        if self.interrupts and number == signal.SIGHUP:
            return
        self.interrupts += 1
        if self.interrupts > 1 and self._foreground and self.name is None:
            raise KeyboardInterrupt  # what loads in this thread cannot be cancelled
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed, as the work has just ended
                self._loop.call_soon_threadsafe(self._obey, self.interrupts)

    def _obey(self, count: int) -> None:
        # another Ctrl-C may come while a connection is closed, and SQLAlchemy would log its traceback
        logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)
        if count == 1 and self._interrupt is not None:
            self._interrupt(FINISHING)
            self.display.stopping()
        elif self._task is not None and (count > 1 or self.name is None):  # else it is ending already
            self._task.cancel()


@dataclass(frozen=True)
class ComparisonOutcome:
    """A comparison whose runs have ended, in the order of `ended`."""

    name: str
    ended: list[Ended]
    interrupted: bool

    @property
    def failed(self) -> list[Ended]:
        return [run for run in self.ended if run.outcome == "failed"]

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of scorers, each once."""
        return tuple(dict.fromkeys(fault for run in self.ended for fault in run.faults))


def run_search(prepare: Callable[[], Coroutine[Any, Any, OpenRun]], driver: Driver, db: str) -> SearchOutcome:

    async def work(driver: Driver) -> SearchOutcome:
        run = await prepare()
        try:
            async with driver.showing(db, run.run.name):
                with driver.interruptible(run.interrupt):
                    return await run_to_end(run)
        finally:
            await run.close()

    return driver.drive(work)


def plan_comparison(
    config: CompareOptions, db: str, name: str | None, command: str
) -> tuple[Callable[[], tuple[str, list[list[str]]]], list[RunConfig]]:
    """(what stores the runs of a new comparison, their configurations). Raises BadInput before anything is stored."""
    from evo.comparison.plan import planned_runs, store_plan

    runs = planned_runs(config)
    configs = [parse(RunConfig, run.config, run.arm) for run in runs]
    check_new_comparison(configs, db, name)
    return partial(store_plan, db, name, runs, command), configs


def run_comparison(
    begin: Callable[[], tuple[str, Sequence[SeedBatch]]],
    configs: Sequence[RunConfig],
    driver: Driver,
    db: str,
    *,
    processes: int | None = None,
    against: str | None = None,
    changes: Changes = UNCHANGED,
    ray: str | None = None,
) -> ComparisonOutcome:
    """Load the resources of the runs' configurations, then begin and search all seed batches. Wrong input is found
    before `begin` is called, and everything committed stays.

    processes: how many search side by side; None lets the policies decide
    """
    from evo.cluster import open_runner
    from evo.comparison.workers import runner_for  # worker processes: a single search does without

    runner = runner_for(configs, processes) if ray is None else open_runner(ray, db)

    async def work(driver: Driver) -> ComparisonOutcome:
        cancelled = False
        try:
            with driver.interruptible(runner.interrupt):
                await runner.prepare(configs)
                if runner.stopping:
                    raise asyncio.CancelledError
                name, batches = begin()
                async with driver.showing(db, name, against):
                    try:
                        await runner.search(db, batches, changes)
                    except asyncio.CancelledError:
                        cancelled = True
        finally:
            await runner.close()
        ended = read_ended(db, [run for batch in batches for run in batch])
        interrupted = cancelled or bool(runner.stopping) or any(run.outcome == "interrupted" for run in ended)
        return ComparisonOutcome(name, ended, interrupted)

    return driver.drive(work)


def resume_stored(
    plan: Resumption, driver: Driver, db: str, *, processes: int | None = None, ray: str | None = None
) -> SearchOutcome | ComparisonOutcome:
    """Continue a stored run, or the runs of a comparison that have anything left to do."""
    from evo.runs.resume import config_of, relaunch

    first = config_of(plan.runs[0], plan.changes)
    driver.track(first.report_to, first.tracked_as)
    if not plan.is_comparison:
        return run_search(lambda: relaunch(plan.name, db=db, changes=plan.changes), driver, db)
    from evo.comparison.plan import seed_batches

    configs = plan.configs()
    batches = seed_batches([(run.name, run.seed) for run in plan.runs if run.name in configs])
    return run_comparison(
        lambda: (plan.name, batches), list(configs.values()), driver, db, processes=processes, changes=plan.changes,
        ray=ray,
    )  # fmt: skip
