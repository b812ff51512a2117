"""A process on a node, which searches runs and shards of runs, one after another, or runs a command.

It is a Ray actor whose methods share one event loop, so it can be interrupted while it searches. Faults of known kinds
are returned as answers, because Ray would wrap exceptions in its own classes.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import ray

from evo.cluster.command import Command
from evo.cluster.connection import adopt_paths
from evo.cluster.engines import Engines
from evo.cluster.scoring import ClusterScorer
from evo.cluster.task import CommandOrder, CommandOutcome
from evo.config.run import RunConfig
from evo.exit_status import answer_of_error
from evo.runs.launch import Launched
from evo.runs.problem_runs import load_runs
from evo.runs.result import Ended, run_to_end
from evo.runs.resume import check_divisible, relaunch, relaunch_shard
from evo.runs.scorer_change import Changes
from evo.search.resources import Resources
from evo.search.stop import Stop, StopReason
from problems.child_process import WorkerAnswer
from problems.sandbox.contract import Mode
from vpo.vllm.leases import ENGINE_REGISTRY


class ClusterWorker:
    """Searches one thing at a time.

    folder, path: the driver's working directory, to which relative names refer, and its import path
    scorer_actors: processes that score its answers (evo.cluster.scoring); none if it scores them itself
    engines: the engines of policies with replicas (evo.cluster.engines)
    """

    def __init__(self, folder: str, path: Sequence[str], scorer_actors: Sequence[Any], engines: Engines) -> None:
        adopt_paths(folder, path)
        self._shared, self._scorer_actors = Resources(), list(scorer_actors)
        self._name = uuid.uuid4().hex
        ENGINE_REGISTRY.update(engines)
        self._stopping: Stop | None = None
        self._paused = False
        self._launched: Launched | None = None
        self._command = Command()

    def _use_scorer_actors(self, mode: Mode) -> None:
        if self._scorer_actors and self._shared.scorer is None:
            self._shared.scorer = ClusterScorer(self._scorer_actors, mode)

    async def prepare(self, configs: Sequence[RunConfig]) -> WorkerAnswer:
        """Load the problems and policies of these runs, as a check."""

        async def load() -> None:
            await load_runs(configs, self._shared)

        return await _answer(load)

    async def open(self, run: str, db: str, changes: Changes, mode: Mode) -> WorkerAnswer:
        """Store the problems and seeds of a planned run, or the changes of a stored one. Returns their number."""

        async def store() -> int:
            self._use_scorer_actors(mode)
            launched = await relaunch(run, db=db, changes=changes, shared=self._shared, sharded=True)
            try:
                check_divisible(launched.config, f"run {run}")
                return len(launched.problem_runs)
            finally:
                await launched.close()

        return await _answer(store)

    async def search(
        self, run: str, shard: int | None, db: str, changes: Changes, take_over: bool, mode: Mode
    ) -> WorkerAnswer:
        """Search to the end; returns an Ended."""

        async def search() -> Ended:
            self._use_scorer_actors(mode)
            if shard is None:
                launched = await relaunch(run, db=db, changes=changes, shared=self._shared, take_over=take_over)
            else:
                launched = await relaunch_shard(run, shard, db=db, node=read_node_id(), shared=self._shared)
            try:
                self._launched = launched
                if self._paused:
                    launched.pause()
                if self._stopping:
                    launched.interrupt(self._stopping)
                return Ended.of(await run_to_end(launched))
            finally:
                self._launched = None
                await launched.close()

        return await _answer(search)

    async def command(self, order: CommandOrder) -> WorkerAnswer:
        """Carry out an order, once in the life of a process; returns its outcome."""

        async def carry_out() -> CommandOutcome:
            return await self._command.run(order, read_node_id())

        return await _answer(carry_out)

    async def read_lines(self) -> list[tuple[str, str]]:
        return await self._command.read_lines()

    async def interrupt(self, reason: str) -> None:
        self._stopping = Stop(StopReason.INTERRUPTED, reason)
        self._command.interrupt()
        if self._launched is not None:
            self._launched.interrupt(self._stopping)

    async def pause(self, paused: bool) -> None:
        self._paused = paused
        if self._launched is not None:
            (self._launched.pause if paused else self._launched.resume)()

    async def close(self) -> None:
        await self._shared.close()

    async def find_node(self) -> str:
        return read_node_id()


def read_node_id() -> str:
    return str(ray.get_runtime_context().get_node_id())[:8]


async def _answer(work: Callable[[], Awaitable[Any]]) -> WorkerAnswer:
    try:
        return WorkerAnswer(await work())
    except Exception as error:
        return answer_of_error(error)
