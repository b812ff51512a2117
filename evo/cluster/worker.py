"""The tasks of the cluster: a whole search each, by the runner of one machine (evo.comparison.workers).

Faults of known kinds are returned as answers, because Ray would wrap exceptions in its own classes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evo.cluster.connection import adopt_paths
from evo.cluster.scoring import ClusterScorer
from evo.comparison.workers import Runner
from evo.config.run import RunConfig
from evo.exit_status import answer_of_error
from evo.runs.start import Changes
from evo.search.stop import Stop, StopReason
from islands.errors import DatabaseUnavailable, RunBusy
from problems.child_process import WorkerAnswer
from problems.sandbox.contract import Mode

BUSY_SECONDS, BUSY_TRIES = 5.0, 30
"""Pause between attempts, and their number. A run whose writer was lost on another machine is busy for a while; a
database server may come back after a restart."""


class Bell:
    """An actor that tells every task to stop."""

    def __init__(self) -> None:
        self.reason = ""
        self._rung = asyncio.Event()

    async def ring(self, reason: str) -> None:
        self.reason = reason
        self._rung.set()

    async def has_rung(self) -> bool:
        return self._rung.is_set()

    async def wait(self) -> str:
        """The reason, once it is rung."""
        await self._rung.wait()
        return self.reason


@dataclass(frozen=True)
class Surroundings:
    """What each task needs of its driver.

    folder, path: its working directory, to which relative names refer, and its import path
    scorer_actors: processes that score answers (evo.cluster.scoring), none if a task scores them itself; mode: their
        sandbox
    """

    folder: str
    path: Sequence[str]
    bell: Any
    scorer_actors: Sequence[Any] = ()
    mode: Mode = "auto"


def load(surroundings: Surroundings, configs: Sequence[RunConfig]) -> WorkerAnswer:
    """Load the problems and policies of these runs, as a check."""
    return _answer(surroundings, lambda runner: runner.prepare(configs))


def search(surroundings: Surroundings, run: str, db: str, changes: Changes, take_over: bool) -> WorkerAnswer:
    """Search a run to its end; wait for one that another process still holds, or for the database."""

    async def listen(runner: Runner) -> None:
        runner.interrupt(Stop(StopReason.INTERRUPTED, await surroundings.bell.wait.remote()))

    async def work(runner: Runner) -> None:
        if await surroundings.bell.has_rung.remote():
            return
        listening = asyncio.create_task(listen(runner))
        try:
            for attempt in range(BUSY_TRIES + 1):
                try:
                    await runner.search_run(run, db, changes, take_over=take_over)
                    return
                except (RunBusy, DatabaseUnavailable):
                    if runner.stopping or attempt == BUSY_TRIES:
                        raise
                await asyncio.sleep(BUSY_SECONDS)
        finally:
            listening.cancel()

    return _answer(surroundings, work)


def _answer(surroundings: Surroundings, work: Callable[[Runner], Awaitable[None]]) -> WorkerAnswer:
    async def whole() -> None:
        actors = surroundings.scorer_actors
        runner = Runner(ClusterScorer(actors, surroundings.mode) if actors else None)
        try:
            await work(runner)
        finally:
            await runner.close()

    adopt_paths(surroundings.folder, surroundings.path)
    try:
        asyncio.run(whole())
        return WorkerAnswer()
    except Exception as error:
        return answer_of_error(error)
