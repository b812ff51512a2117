"""Drives work to its end: on an event loop, shown on a display, and stopped by Ctrl-C. Searches and comparisons end in
an outcome, which the Python functions turn into a result or an exception, and the command line into lines and an exit
code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from evo.api.display import Bar, Display
from evo.config.compare import CompareOptions
from evo.config.parse import parse
from evo.config.run import RunConfig, name_in_trackers
from evo.process import ENDS, handling
from evo.runs.finish import Ended, SearchOutcome, read_ended, run_to_end
from evo.runs.preflight import check_new_comparison
from evo.runs.start import UNCHANGED, Changes, OpenRun, start_run
from evo.search.resources import Resources
from evo.search.stop import FINISHING, Stop
from islands.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from evo.progress.model import Progress
    from evo.progress.snapshot import Snapshot
    from evo.report.trackers import Tracking
    from evo.runs.resume import Resumption

_T = TypeVar("_T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, after all groups in flight are committed. The message names the way to
    continue.

    name: of the run or comparison, or the directory of a training; None if nothing was stored yet
    """

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class Driver:
    """Runs work to its end, once, and is what the work reports to. It works in the caller's thread, or in one of its
    own where an event loop runs already, as in a notebook's cell.

    name: of the stored run, once there is one
    tracking: the experiment trackers that it reports to
    interrupts: how often Ctrl-C was pressed
    """

    def __init__(
        self,
        display: Display,
        *,
        command: bool = False,
        after: str = "{0}: interrupted with everything committed; evo.resume({0!r}) continues it",
        before: str = "interrupted before anything was stored",
    ) -> None:
        """command: obey TERM and the end of the terminal too, and give the result of work that was interrupted and
        ended by itself

        after, before: what to report of an interrupt: after something was stored, by its name, and before that
        """
        self.display, self._command = display, command
        self._after, self._before = after, before
        self.name: str | None = None
        self.tracking: Tracking | None = None
        self.interrupts = 0
        self._interrupt: Callable[[Stop], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def drive(self, work: Callable[[Driver], Coroutine[Any, Any, _T]]) -> _T:
        """The result of the work. Raises its errors; Interrupted after a Ctrl-C, once it has ended."""
        if asyncio._get_running_loop() is not None:
            with handling(self._press, signal.SIGINT), ThreadPoolExecutor(1, "evo") as thread:
                return thread.submit(copy_context().run, self.drive, work).result()
        signals = ENDS if self._command else ENDS[:1]
        with self.tracking or contextlib.nullcontext(), handling(self._press, *signals), self.display:
            try:
                with asyncio.Runner() as runner:
                    self._loop = runner.get_loop()
                    self._task = self._loop.create_task(work(self))
                    if self.interrupts:  # before there was an event loop
                        self._task.cancel()
                    result: _T = self._loop.run_until_complete(self._task)
            except (asyncio.CancelledError, KeyboardInterrupt):
                raise self._interrupted() from None
        if self.interrupts and not self._command:
            raise self._interrupted()
        return result

    def _interrupted(self) -> Interrupted:
        return Interrupted(self._before if self.name is None else self._after.format(self.name), self.name)

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

    @contextlib.asynccontextmanager
    async def searching(self, db: str, run: OpenRun) -> AsyncIterator[None]:
        """In this block a run is searched: it is shown, and a first Ctrl-C interrupts it."""
        async with self.showing(db, run.run.name):
            with self.interruptible(run.search.interrupt):
                yield

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

    def _press(self, number: int = signal.SIGINT) -> None:
        """One Ctrl-C. The end of a terminal is never the second one: several processes may send it."""
        if self.interrupts and number == signal.SIGHUP:
            return
        self.interrupts += 1
        if self.interrupts > 1 and self.name is None:
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


def python_driver(progress: bool, **words: str) -> Driver:
    """That of a Python function. progress: whether it shows a bar; words: on an interrupt, as Driver takes them"""
    return Driver(Bar() if progress else Display(), **words)  # type: ignore[arg-type]


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


Work = Callable[[Driver], Coroutine[Any, Any, _T]]
"""What a driver drives."""


def new_search(
    config: RunConfig, driver: Driver, db: str, name: str | None, command: str, resources: Resources
) -> Work[SearchOutcome]:
    """A new run, for the driver. resources: those with which check_new_run accepted the configuration"""
    config = name_in_trackers(config, name)
    driver.track(config.report_to, config.tracked_as)
    return run_search(partial(start_run, config, db=db, name=name, command=command, resources=resources), db)


def run_search(opening: Callable[[], Coroutine[Any, Any, OpenRun]], db: str) -> Work[SearchOutcome]:
    """The search of a run to its end, for the driver. opening: starts or resumes it"""
    return lambda driver: run_to_end(opening, partial(driver.searching, db))


@dataclass(frozen=True)
class ComparisonPlan:
    """A comparison that is ready to be searched.

    configs: of its runs that have anything left to do
    start: stores it if it is new, and gives its name and the runs to search in seed batches
    """

    configs: Sequence[RunConfig]
    start: Callable[[], tuple[str, list[list[str]]]]
    against: str | None = None
    changes: Changes = UNCHANGED


def plan_comparison(options: CompareOptions, db: str, name: str | None, command: str) -> ComparisonPlan:
    """Raises BadInput before anything is stored."""
    from evo.comparison.plan import planned_runs, start_comparison

    runs = planned_runs(name_in_trackers(options, name))
    configs = [parse(RunConfig, run.config, run.arm) for run in runs]
    check_new_comparison(configs, db, name)
    return ComparisonPlan(configs, partial(start_comparison, db, name, runs, command), options.against)


def new_comparison(
    plan: ComparisonPlan, driver: Driver, db: str, *, processes: int | None = None, ray: str | None = None
) -> Work[ComparisonOutcome]:
    """A planned comparison, for the driver. processes: how many search side by side; None lets the policies decide"""
    driver.track(plan.configs[0].report_to, plan.configs[0].tracked_as)
    return partial(search_comparison, plan, db, processes, ray)


async def search_comparison(
    plan: ComparisonPlan, db: str, processes: int | None, ray: str | None, driver: Driver
) -> ComparisonOutcome:
    """Load the resources of the runs' configurations, then start and search all seed batches. Wrong input is found
    before anything is stored, and everything committed stays."""
    from evo.cluster import open_runner
    from evo.comparison.workers import runner_for  # worker processes: a single search does without

    runner, cancelled = runner_for(plan.configs, processes) if ray is None else open_runner(ray, db), False
    try:
        with driver.interruptible(runner.interrupt):
            await runner.prepare(plan.configs)
            if runner.stopping:
                raise asyncio.CancelledError
            name, batches = plan.start()
            async with driver.showing(db, name, plan.against):
                try:
                    await runner.search(db, batches, plan.changes)
                except asyncio.CancelledError:
                    cancelled = True
    finally:
        await runner.close()
    ended = read_ended(db, [run for batch in batches for run in batch])
    interrupted = cancelled or bool(runner.stopping) or any(run.outcome == "interrupted" for run in ended)
    return ComparisonOutcome(name, ended, interrupted)


def resumed_search(
    plan: Resumption, driver: Driver, db: str, *, processes: int | None = None, ray: str | None = None
) -> Work[SearchOutcome | ComparisonOutcome]:
    """A stored run, or the runs of a comparison that have anything left to do, for the driver."""
    from evo.runs.resume import config_of, resume_run

    first = config_of(plan.runs[0], plan.changes)
    driver.track(first.report_to, first.tracked_as)
    if not plan.is_comparison:
        return run_search(partial(resume_run, plan.name, db=db, changes=plan.changes), db)
    from evo.comparison.plan import seed_batches

    configs = plan.configs()
    batches = seed_batches([(run.name, run.seed) for run in plan.runs if run.name in configs])
    comparison = ComparisonPlan(list(configs.values()), lambda: (plan.name, batches), changes=plan.changes)
    return partial(search_comparison, comparison, db, processes, ray)
