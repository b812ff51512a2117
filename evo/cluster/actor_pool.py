"""The processes that a cluster does the work in: started, asked, and replaced where they are lost.

Ray says when a process or its node is gone. What it had is then given to another: whoever had it before is refused by
the database, should it only have been unreachable, so nothing is committed twice; what was committed is not done again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from evo.cluster.connection import describe_nodes, import_path, slots
from evo.cluster.engines import EnginePool
from evo.cluster.summary import add_up_servers
from evo.cluster.task import ClusterTask, CommandOrder, CommandOutcome
from evo.cluster.worker import ClusterWorker
from evo.command_process import Write
from evo.config.cluster import ClusterAddress
from evo.errors import SearchFailed
from evo.exit_status import INTERRUPTED
from islands.errors import DatabaseUnavailable, RunBusy
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.redaction import redact

LOOK_SECONDS, ROOM_SECONDS = 0.5, 30.0
"""Between looks for a free node, and until a message says that none is free."""
Search = Callable[[Any, ClusterTask], Awaitable[Any]]
"""(actor, task) -> what the task gives."""
MOST_LOST = 5
"""Processes that a task may lose one after another without a group committed between."""
BUSY_SECONDS, BUSY_TRIES = 5.0, 30
"""A run whose writer was lost on another machine counts as written until its heartbeat is old, and a server that is
restarted comes back."""
EVENTS_KEPT = 50


class ActorPool:
    """As many processes as fit, over the tasks that there are.

    stopping: a reason, once no further task is begun; lost, restarted: counts for those who watch
    """

    def __init__(self, place: ClusterAddress, groups: Callable[[ClusterTask], int], unit: str = "groups") -> None:
        """groups: how many a task's run or shard has in the database; unit: what is counted where that is no group"""
        self.place, self._groups, self._unit = place, groups, unit
        self.stopping: str | None = None
        self.lost = self.restarted = 0
        self.waiting: deque[ClusterTask] = deque()
        self.running: dict[int, tuple[ClusterTask, Any]] = {}
        self.done: list[ClusterTask] = []
        self.events: deque[dict[str, Any]] = deque(maxlen=EVENTS_KEPT)
        self.warning: Callable[[str], None] = lambda text: None
        self.scorer_actors: list[Any] = []
        self.engine_pool = EnginePool()
        self._actors: list[Any] = []
        self._paused = False
        self._known: dict[tuple[str, str, str], dict[str, Any]] = {}

    def start(self) -> Any:
        """A new process somewhere on the cluster."""
        options = self.place.options
        remote = ray.remote(ClusterWorker).options(
            num_cpus=options.cpus, num_gpus=options.gpus, resources=options.resources or None, max_restarts=0
        )
        actor = remote.remote(str(Path.cwd()), import_path(), self.scorer_actors, self.engine_pool.replicas)
        self._actors.append(actor)
        return actor

    def slots(self) -> int:
        """How many tasks can be under way at once."""
        return slots(self.place, self.engine_pool.taken)

    async def ask(self, actor: Any, method: str, *arguments: Any) -> Any:
        """An order's result. Raises the worker's fault, WorkerFailed for a bug, and RayError if the process is gone."""
        try:
            answer: WorkerAnswer = await getattr(actor, method).remote(*arguments)
        except RayTaskError as error:
            raise WorkerFailed(f"a worker failed in {method}: {error}") from None
        return answer.result()

    async def work(self, tasks: Sequence[ClusterTask], search: Search) -> list[Any]:
        """Do all tasks, in their order as seats become free; their results, of those that were begun."""
        self.waiting.extend(tasks)
        results: list[Any] = []
        seats = [
            asyncio.create_task(self._serve(number, search, results)) for number in range(min(len(tasks), self.slots()))
        ]
        try:
            await asyncio.gather(*seats)
        except BaseException:
            for seat in seats:
                seat.cancel()
            await asyncio.gather(*seats, return_exceptions=True)
            raise
        return results

    async def _serve(self, number: int, search: Search, results: list[Any]) -> None:
        actor: Any = None
        while self.waiting and self.stopping is None:
            task = self.waiting.popleft()
            if actor is None:
                actor = self.start()
                if self._paused:
                    actor.pause.remote(True)
            self.running[number] = (task, actor)
            try:
                results.append(await self._until_free(actor, task, search))
                self.done.append(task)
            except RayError as error:
                self.drop(actor)
                actor = None
                self._lose(task, error)
            finally:
                del self.running[number]
        if actor is not None:
            self.drop(actor)

    async def _until_free(self, actor: Any, task: ClusterTask, search: Search) -> Any:
        told: type[Exception] | None = None
        for _ in range(BUSY_TRIES):
            try:
                return await search(actor, task)
            except (RunBusy, DatabaseUnavailable) as error:
                if self.stopping is not None:
                    raise
                if told is not type(error):  # once for all attempts
                    told = type(error)
                    self.tell(f"{task.label} waits up to {BUSY_TRIES * BUSY_SECONDS:.0f} s: {error}")
                await asyncio.sleep(BUSY_SECONDS)
        return await search(actor, task)

    def _lose(self, task: ClusterTask, error: RayError) -> None:
        """Give the task to another process. Raises SearchFailed where that has been of no use before."""
        groups = self._groups(task)
        task.lost += 1
        task.fruitless = task.fruitless + 1 if groups <= task.groups else 1
        task.groups = groups
        self.lost += 1
        reason = " ".join(str(error).split())[:160]
        if task.fruitless >= MOST_LOST:
            raise SearchFailed(
                f"{task.label}: {MOST_LOST} processes were lost one after another with nothing committed ({reason})"
            )
        self.restarted += 1
        self.tell(f"{task.label} lost its process and goes on in another, after {groups} {self._unit} ({reason})")
        self.waiting.appendleft(task)

    def tell(self, text: str) -> None:
        text = redact(text)
        self.events.append({"at": round(time.time(), 1), "text": text})
        self.warning(text)

    def interrupt(self, reason: str) -> None:
        self.stopping = reason
        for _, actor in self.running.values():
            actor.interrupt.remote(reason)

    def pause(self, paused: bool) -> None:
        self._paused = paused
        for _, actor in self.running.values():
            actor.pause.remote(paused)

    def state(self) -> dict[str, Any]:
        """For those who watch."""
        return {
            "nodes": describe_nodes(),
            "running": [task.label for task, _ in self.running.values()],
            "waiting": len(self.waiting),
            "done": len(self.done),
            "lost": self.lost,
            "restarted": self.restarted,
            "scorers": len(self.scorer_actors),
            "engines": [*self.engine_pool.state(), *self._servers()],
            "events": list(self.events),
        }

    def _servers(self) -> list[dict[str, Any]]:
        """Servers that the tasks ask, as these see them together."""
        refs = [actor.servers.remote() for _, actor in list(self.running.values())]
        answered, _ = ray.wait(refs, num_returns=len(refs), timeout=1.0) if refs else ([], [])
        for ref in answered:
            with suppress(RayError):
                for one in ray.get(ref):
                    self._known[one["address"], one["url"], one.pop("task")] = one
        return add_up_servers(self._known)

    def close(self) -> None:
        for actor in list(self._actors):
            self.drop(actor)
        for scorer_actor in self.scorer_actors:
            ray.kill(scorer_actor)
        self.engine_pool.close()

    def drop(self, actor: Any) -> None:
        """End a process."""
        if actor in self._actors:
            self._actors.remove(actor)
            ray.kill(actor)


async def run_command(pool: ActorPool, name: str, order: Callable[[], CommandOrder], write: Write) -> CommandOutcome:
    """Have an order carried out by a process of the cluster, its lines written here. order: what is left to do, asked
    again where the process is lost. Raises what the order's own input is at fault for, and SearchFailed where process
    after process is lost."""

    async def read(actor: Any) -> None:
        with suppress(RayError):  # of its loss the other call tells
            while lines := await actor.lines.remote():
                for stream, line in lines:
                    write(stream, line)

    async def carry_out(actor: Any, task: ClusterTask) -> CommandOutcome:
        if not await _placed(pool, actor, name):
            return CommandOutcome(INTERRUPTED)
        reading = asyncio.create_task(read(actor))
        try:
            outcome: CommandOutcome = await pool.ask(actor, "command", order())
            await reading
            return outcome
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    found = await pool.work([ClusterTask(name)], carry_out)
    return found[0] if found else CommandOutcome(INTERRUPTED)


async def _placed(pool: ActorPool, actor: Any, name: str) -> bool:
    """Until a node has room for the process; False where it is interrupted before. Raises RayError where it is lost."""
    began, told = time.monotonic(), False
    located = asyncio.ensure_future(_whereabouts(actor))
    try:
        while not (await asyncio.wait({located}, timeout=LOOK_SECONDS))[0]:
            if pool.stopping is not None:
                return False
            if not told and time.monotonic() - began > ROOM_SECONDS:
                told = True
                pool.tell(f"{name} waits for a node with room for it ({pool.place.options.describe_task()})")
        await located
        return True
    finally:
        located.cancel()


async def _whereabouts(actor: Any) -> str:
    return str(await actor.whereabouts.remote())
