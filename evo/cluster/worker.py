"""What runs on a node: a process that searches whole runs and shards of runs, one after another, or runs a command.

It is an actor of Ray's, whose methods share one event loop, so that it can be interrupted while it searches. Faults of
known kinds are answers, not exceptions: Ray would wrap them in classes of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import ray

from evo.cluster.command import Command
from evo.cluster.connection import take_on
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
from vpo.policies.contract import OnServers
from vpo.vllm.leases import ENGINE_REGISTRY


class ClusterWorker:
    """Searches one thing at a time.

    folder, path: the driver's working directory, which relative names are of, and where it imports from
    scorer_actors: processes that score its answers (evo.cluster.scoring); none where it does that itself
    engines: of policies with replicas (evo.cluster.engines)
    """

    def __init__(self, folder: str, path: Sequence[str], scorer_actors: Sequence[Any], engines: Engines) -> None:
        take_on(folder, path)
        self._shared, self._scorer_actors = Resources(), list(scorer_actors)
        self._name = uuid.uuid4().hex
        ENGINE_REGISTRY.update(engines)
        self._stopping: Stop | None = None
        self._paused = False
        self._launched: Launched | None = None
        self._command = Command()

    def _use_judges(self, mode: Mode) -> None:
        if self._scorer_actors and self._shared.scorer is None:
            self._shared.scorer = ClusterScorer(self._scorer_actors, mode)

    async def prepare(self, configs: Sequence[RunConfig]) -> WorkerAnswer:
        """Load what these need, to find what is wrong with it."""

        async def load() -> None:
            await load_runs(configs, self._shared)

        return await _answered(load)

    async def open(self, run: str, db: str, changes: Changes, mode: Mode) -> WorkerAnswer:
        """Put a planned run's problems and seeds into the database, or a stored one's changes; how many problems."""

        async def put() -> int:
            self._use_judges(mode)
            launched = await relaunch(run, db=db, changes=changes, shared=self._shared, sharded=True)
            try:
                check_divisible(launched.config, f"run {run}")
                return len(launched.problem_runs)
            finally:
                await launched.close()

        return await _answered(put)

    async def search(
        self, run: str, shard: int | None, db: str, changes: Changes, take_over: bool, mode: Mode
    ) -> WorkerAnswer:
        """Search to the end; how it ended."""

        async def search() -> Ended:
            self._use_judges(mode)
            if shard is None:
                launched = await relaunch(run, db=db, changes=changes, shared=self._shared, take_over=take_over)
            else:
                launched = await relaunch_shard(run, shard, db=db, node=node_id(), shared=self._shared)
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

        return await _answered(search)

    async def command(self, order: CommandOrder) -> WorkerAnswer:
        """Carry out an order, one in a process's life; its outcome."""

        async def carry_out() -> CommandOutcome:
            return await self._command.run(order, node_id())

        return await _answered(carry_out)

    async def lines(self) -> list[tuple[str, str]]:
        return await self._command.lines()

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

    async def servers(self) -> list[dict[str, Any]]:
        """What the policies that are spread over servers say of them, each with this process's name."""
        found: list[dict[str, Any]] = []
        for policy in self._shared.opened():
            servers = policy.servers() if isinstance(policy, OnServers) else []
            found += [{**server, "address": policy.version, "task": self._name} for server in servers]
        return found

    async def whereabouts(self) -> str:
        return node_id()


def node_id() -> str:
    return str(ray.get_runtime_context().get_node_id())[:8]


async def _answered(work: Callable[[], Awaitable[Any]]) -> WorkerAnswer:
    try:
        return WorkerAnswer(await work())
    except Exception as error:
        return answer_of_error(error)
