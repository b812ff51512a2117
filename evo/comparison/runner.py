"""Parallel searches of stored runs: the arms of a comparison under one seed, one seed batch after another.

A runner first loads the problems and policies (`prepare`), which finds bad input before anything is stored, and then
searches the runs. Worker processes are in evo.comparison.workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evo.config.run import RunConfig
from evo.runs.launch import Launched
from evo.runs.problem_runs import load_runs
from evo.runs.result import Ended, run_to_end
from evo.runs.resume import relaunch
from evo.runs.scorer_change import UNCHANGED, Changes
from evo.search.resources import Resources
from evo.search.stop import FINISHING, Stop

SeedBatch = Sequence[tuple[str, RunConfig]]
"""The runs of one seed, which are searched together: name and configuration of each."""


class Runner:
    """Searches in this process, on one event loop. Used once: prepare, search, close."""

    def __init__(self) -> None:
        self.paused = False
        self.stopping: Stop | None = None
        self._shared = Resources()
        self._running: list[Launched] = []

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Load the problems and policies of these runs. Raises their errors."""
        await load_runs(configs, self._shared)

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> list[Ended]:
        """Search the runs of each batch together. Returns how each ended. If one fails, the others continue."""
        ended: list[Ended] = []
        for batch in seed_batches:
            if self.stopping:
                break
            tasks = [asyncio.create_task(self._one(name, db, changes)) for name, _ in batch]
            try:
                ended += await asyncio.gather(*tasks)
            except BaseException:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        return ended

    async def _one(self, name: str, db: str, changes: Changes) -> Ended:
        launched = await relaunch(name, db=db, changes=changes, shared=self._shared)
        try:
            self._running.append(launched)
            if self.paused:
                launched.pause()
            if self.stopping:
                launched.interrupt(self.stopping)
            outcome = await run_to_end(launched)
            if outcome.cancelled:
                raise asyncio.CancelledError
            return Ended.of(outcome)
        finally:
            self._running.remove(launched)
            await launched.close()

    def pause(self) -> None:
        self.paused = True
        for launched in self._running:
            launched.pause()

    def resume(self) -> None:
        self.paused = False
        for launched in self._running:
            launched.resume()

    def interrupt(self, stop: Stop) -> None:
        """Finish and commit the iterations in flight, then end; begin no further batch."""
        self.stopping = stop
        for launched in self._running:
            launched.interrupt(stop)

    def stop(self) -> None:
        self.interrupt(FINISHING)

    async def close(self) -> None:
        await self._shared.close()
