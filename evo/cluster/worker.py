"""A process on a node, which searches runs, one after another, by the runner of one machine (evo.comparison.workers).

It is a Ray actor whose methods share one event loop, so it can be interrupted while it searches. Faults of known kinds
are returned as answers, because Ray would wrap exceptions in its own classes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from evo.cluster.connection import adopt_paths
from evo.cluster.scoring import ClusterScorer
from evo.comparison.workers import Runner
from evo.config.run import RunConfig
from evo.exit_status import answer_of_error
from evo.runs.start import Changes
from evo.search.stop import Stop, StopReason
from problems.child_process import WorkerAnswer
from problems.sandbox.contract import Mode


class ClusterWorker:
    """Searches one run at a time.

    folder, path: the driver's working directory, to which relative names refer, and its import path
    scorer_actors: processes that score its answers (evo.cluster.scoring); none if it scores them itself
    mode: the sandbox in which these score
    """

    def __init__(self, folder: str, path: Sequence[str], scorer_actors: Sequence[Any], mode: Mode) -> None:
        adopt_paths(folder, path)
        self._runner = Runner(ClusterScorer(scorer_actors, mode) if scorer_actors else None)

    async def prepare(self, configs: Sequence[RunConfig]) -> WorkerAnswer:
        """Load the problems and policies of these runs, as a check."""
        return await _answer(self._runner.prepare(configs))

    async def search(self, run: str, db: str, changes: Changes, take_over: bool) -> WorkerAnswer:
        """Search to the end."""
        return await _answer(self._runner.search_run(run, db, changes, take_over=take_over))

    async def interrupt(self, reason: str) -> None:
        self._runner.interrupt(Stop(StopReason.INTERRUPTED, reason))


async def _answer(work: Awaitable[None]) -> WorkerAnswer:
    try:
        await work
        return WorkerAnswer()
    except Exception as error:
        return answer_of_error(error)
