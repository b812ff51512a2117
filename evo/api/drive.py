"""Drives searches and comparisons to their end, for a Python caller or the command line.

A driver runs the work on an event loop and shows it: evo.api.background in a thread while the caller waits, and
evo.cli.live in the foreground. The work ends in an outcome, which the Python functions turn into a result or an
exception, and the command line into lines and an exit code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from evo.cluster import open_runner
from evo.config.run import RunConfig
from evo.runs.finish import Ended, SearchOutcome, read_ended, run_to_end
from evo.runs.start import UNCHANGED, Changes, OpenRun
from evo.search.stop import Stop

if TYPE_CHECKING:
    from evo.comparison.workers import SeedBatch
    from evo.runs.resume import Resumption

T = TypeVar("T")


class Driver(Protocol):
    """Runs work to its end, once, and is what the work reports to."""

    def drive(self, work: Callable[[Driver], Coroutine[Any, Any, T]]) -> T:
        """The result of the work. Raises its errors, and `asyncio.CancelledError` if it was cancelled."""
        ...

    def interruptible(self, interrupt: Callable[[Stop], None]) -> AbstractContextManager[None]:
        """While the block runs, a first Ctrl-C calls `interrupt`, on the event loop of the work, and a second one
        cancels the work. Outside it the first one cancels."""
        ...

    def showing(self, db: str, name: str, against: str | None = None) -> AbstractAsyncContextManager[None]:
        """In this block the stored run or comparison is shown. against: its reference arm"""
        ...


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
    """Search one run, which `prepare` opens."""

    async def work(driver: Driver) -> SearchOutcome:
        run = await prepare()
        try:
            async with driver.showing(db, run.run.name):
                with driver.interruptible(run.interrupt):
                    return await run_to_end(run)
        finally:
            await run.close()

    return driver.drive(work)


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
) -> ComparisonOutcome | None:
    """Load the resources of the runs' configurations, then begin and search all seed batches; None if it was
    interrupted before it was stored. Wrong input is found before `begin` is called, and everything committed stays.

    processes: how many search side by side; None lets the policies decide
    """
    from evo.comparison.workers import runner_for  # worker processes: a single search does without

    runner = runner_for(configs, processes) if ray is None else open_runner(ray, db)

    async def work(driver: Driver) -> ComparisonOutcome | None:
        cancelled = False
        try:
            with driver.interruptible(runner.interrupt):
                await runner.prepare(configs)
                if runner.stopping:
                    return None
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


def resume_search(plan: Resumption, driver: Driver, db: str) -> SearchOutcome:
    """Continue one stored run, as `run_search` does."""
    from evo.runs.resume import relaunch

    return run_search(lambda: relaunch(plan.name, db=db, changes=plan.changes), driver, db)


def resume_comparison(
    plan: Resumption,
    configs: Mapping[str, RunConfig],
    driver: Driver,
    db: str,
    *,
    processes: int | None,
    ray: str | None,
) -> ComparisonOutcome | None:
    """Continue the runs of a stored comparison that have anything left to do, as `run_comparison` does.

    configs: of these runs, by name (`plan.configs`)
    """
    from evo.comparison.plan import seed_batches

    batches, changes = seed_batches([(run.name, run.seed) for run in plan.runs if run.name in configs]), plan.changes
    return run_comparison(
        lambda: (plan.name, batches), list(configs.values()), driver, db, processes=processes, changes=changes, ray=ray
    )
