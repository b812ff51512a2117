"""A process on a node, which searches runs, one after another.

It is a Ray actor whose methods share one event loop, so it can be interrupted while it searches. Faults of known kinds
are returned as answers, because Ray would wrap exceptions in its own classes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from evo.cluster.connection import adopt_paths
from evo.cluster.scoring import ClusterScorer
from evo.config.run import RunConfig
from evo.exit_status import answer_of_error
from evo.runs.finish import Ended, run_to_end
from evo.runs.resume import relaunch
from evo.runs.start import Changes, OpenRun, load_runs
from evo.search.resources import Resources
from evo.search.stop import Stop, StopReason
from problems.child_process import WorkerAnswer
from problems.sandbox.contract import Mode


class ClusterWorker:
    """Searches one run at a time.

    folder, path: the driver's working directory, to which relative names refer, and its import path
    scorer_actors: processes that score its answers (evo.cluster.scoring); none if it scores them itself
    """

    def __init__(self, folder: str, path: Sequence[str], scorer_actors: Sequence[Any]) -> None:
        adopt_paths(folder, path)
        self._shared, self._scorer_actors = Resources(), list(scorer_actors)
        self._stopping: Stop | None = None
        self._launched: OpenRun | None = None

    async def prepare(self, configs: Sequence[RunConfig]) -> WorkerAnswer:
        """Load the problems and policies of these runs, as a check."""

        async def load() -> None:
            await load_runs(configs, self._shared)

        return await _answer(load)

    async def search(self, run: str, db: str, changes: Changes, take_over: bool, mode: Mode) -> WorkerAnswer:
        """Search to the end; returns an Ended."""

        async def search() -> Ended:
            if self._scorer_actors and self._shared.scorer is None:
                self._shared.scorer = ClusterScorer(self._scorer_actors, mode)
            launched = await relaunch(run, db=db, changes=changes, shared=self._shared, take_over=take_over)
            try:
                self._launched = launched
                if self._stopping:
                    launched.interrupt(self._stopping)
                return Ended.of(await run_to_end(launched))
            finally:
                self._launched = None
                await launched.close()

        return await _answer(search)

    async def interrupt(self, reason: str) -> None:
        self._stopping = Stop(StopReason.INTERRUPTED, reason)
        if self._launched is not None:
            self._launched.interrupt(self._stopping)


async def _answer(work: Callable[[], Awaitable[Any]]) -> WorkerAnswer:
    try:
        return WorkerAnswer(await work())
    except Exception as error:
        return answer_of_error(error)
