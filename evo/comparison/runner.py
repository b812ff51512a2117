"""Searches of stored runs side by side: the arms of a comparison, one wave after another (a wave is a seed).

A fleet is told first what it will have to search (`prepare`), which finds bad input before anything is stored, and
then which runs. Fleets in processes of their own are in evo.comparison.workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evo.config.run import RunConfig
from evo.runs.launch import Launched, check_together, relaunch
from evo.runs.result import concluded
from evo.runs.scorer_change import UNCHANGED, Changes
from evo.search.resources import Shared

FINISHING = "interrupted; finishing the groups in flight"

Wave = Sequence[tuple[str, RunConfig]]
"""Runs that are searched together: each one's name and configuration."""


@dataclass(frozen=True)
class Ended:
    """How a run ended: its stored outcome (done, interrupted, failed) with the reason, and the faults of scorers."""

    run: str
    outcome: str
    reason: str
    faults: tuple[str, ...] = ()


class Fleet:
    """Searches in this process, on one event loop. Used once: prepare, search, close."""

    def __init__(self) -> None:
        self.paused = False
        self.stopping = ""
        self._shared = Shared()
        self._running: list[Launched] = []
        self._task: asyncio.Task[Any] | None = None

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Load what these need: problems, policies. Raises what is wrong with them."""
        for config in configs:
            problems = self._shared.problems(config)
            check_together(config, problems, self._shared.operators(config, problems))
            await asyncio.sleep(0)

    async def search(self, db: str, waves: Sequence[Wave], changes: Changes = UNCHANGED) -> list[Ended]:
        """Run the stored runs of each wave together; how each ended. A search that fails leaves the others running."""
        ended: list[Ended] = []
        for wave in waves:
            if self.stopping:
                break
            tasks = [asyncio.create_task(self._one(name, db, changes)) for name, _ in wave]
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
                launched.search.pause()
            if self.stopping:
                launched.search.interrupt(self.stopping)
            found = await concluded(launched)
            if found.cancelled:
                raise asyncio.CancelledError
            return Ended(launched.run.name, found.outcome, found.why, found.faults)
        finally:
            self._running.remove(launched)
            await launched.close()

    def pause(self) -> None:
        self.paused = True
        for launched in self._running:
            launched.search.pause()

    def resume(self) -> None:
        self.paused = False
        for launched in self._running:
            launched.search.resume()

    def interrupt(self, reason: str) -> None:
        """Finish what the policies have begun with, commit it, and end; begin no further wave."""
        self.stopping = reason
        for launched in self._running:
            launched.search.interrupt(reason)

    def stop(self) -> None:
        self.interrupt(FINISHING)

    async def close(self) -> None:
        await self._shared.close()
