"""The processes of a cluster: they are started, given tasks, and replaced if they are lost.

Ray reports a process or a node that is gone. Its task is then given to another process. If the first process was only
unreachable, the database refuses its writes, so nothing is committed twice; committed work is not repeated.
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

from evo.cluster.connection import count_slots, describe_nodes, list_import_path
from evo.cluster.engines import EnginePool
from evo.cluster.task import ClusterTask, CommandOrder, CommandOutcome
from evo.cluster.worker import ClusterWorker
from evo.command_process import Write
from evo.config.cluster import ClusterAddress
from evo.errors import INTERRUPTED, SearchFailed
from islands.errors import DatabaseUnavailable, RunBusy
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.redaction import redact

LOOK_SECONDS, NOTICE_SECONDS = 0.5, 30.0
"""Seconds between checks for a free node, and until a message reports that none is free."""
Search = Callable[[Any, ClusterTask], Awaitable[Any]]
"""(actor, task) -> the result of the task."""
MOST_LOST = 5
"""Processes that a task may lose in a row without a committed group."""
BUSY_SECONDS, BUSY_TRIES = 5.0, 30
"""Pause between attempts, and their number. A run whose writer was lost on another machine is busy until its heartbeat
is old; a database server may come back after a restart."""
EVENTS_KEPT = 50


class ActorPool:
    """Processes for tasks, as many as the cluster can hold.

    stopping: the reason for beginning no further task, or None; lost, restarted: counts for displays
    """

    def __init__(self, place: ClusterAddress, groups: Callable[[ClusterTask], int], unit: str = "groups") -> None:
        """groups: counts the groups of a task in the database; unit: the name of what it counts, if not groups"""
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

    def start(self) -> Any:
        """Start a new process on any node of the cluster."""
        options = self.place.options
        remote = ray.remote(ClusterWorker).options(
            num_cpus=options.cpus, num_gpus=options.gpus, resources=options.resources or None, max_restarts=0
        )
        actor = remote.remote(str(Path.cwd()), list_import_path(), self.scorer_actors, self.engine_pool.replicas)
        self._actors.append(actor)
        return actor

    def count_slots(self) -> int:
        """How many tasks can run at once."""
        return count_slots(self.place, self.engine_pool.taken)

    async def ask(self, actor: Any, method: str, *arguments: Any) -> Any:
        """Call a method of the worker and return its result. Raises the worker's fault, WorkerFailed for a bug, or
        RayError if the process is gone."""
        try:
            answer: WorkerAnswer = await getattr(actor, method).remote(*arguments)
        except RayTaskError as error:
            raise WorkerFailed(f"a worker failed in {method}: {error}") from None
        return answer.result()

    async def work(self, tasks: Sequence[ClusterTask], search: Search) -> list[Any]:
        """Do all tasks, in their order, as processes become free. Returns the results of those that were begun."""
        self.waiting.extend(tasks)
        results: list[Any] = []
        count = min(len(tasks), self.count_slots())
        workers = [asyncio.create_task(self._serve(number, search, results)) for number in range(count)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
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
                results.append(await self._search_when_free(actor, task, search))
                self.done.append(task)
            except RayError as error:
                self.drop(actor)
                actor = None
                self._lose(task, error)
            finally:
                del self.running[number]
        if actor is not None:
            self.drop(actor)

    async def _search_when_free(self, actor: Any, task: ClusterTask, search: Search) -> Any:
        reported: type[Exception] | None = None
        for _ in range(BUSY_TRIES):
            try:
                return await search(actor, task)
            except (RunBusy, DatabaseUnavailable) as error:
                if self.stopping is not None:
                    raise
                if reported is not type(error):  # once for all attempts
                    reported = type(error)
                    self.report(f"{task.label} waits up to {BUSY_TRIES * BUSY_SECONDS:.0f} s: {error}")
                await asyncio.sleep(BUSY_SECONDS)
        return await search(actor, task)

    def _lose(self, task: ClusterTask, error: RayError) -> None:
        """Give the task to another process. Raises SearchFailed if it has lost MOST_LOST in a row without progress."""
        groups = self._groups(task)
        task.lost += 1
        task.fruitless = task.fruitless + 1 if groups <= task.groups else 1
        task.groups = groups
        self.lost += 1
        reason = " ".join(str(error).split())[:160]
        if task.fruitless >= MOST_LOST:
            raise SearchFailed(
                f"{task.label}: {MOST_LOST} processes were lost in a row with nothing committed ({reason})"
            )
        self.restarted += 1
        self.report(f"{task.label} lost its process and continues in another, after {groups} {self._unit} ({reason})")
        self.waiting.appendleft(task)

    def report(self, text: str) -> None:
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

    def describe(self) -> dict[str, Any]:
        """The state for a display."""
        return {
            "nodes": describe_nodes(),
            "running": [task.label for task, _ in self.running.values()],
            "waiting": len(self.waiting),
            "done": len(self.done),
            "lost": self.lost,
            "restarted": self.restarted,
            "scorers": len(self.scorer_actors),
            "engines": self.engine_pool.describe(),
            "events": list(self.events),
        }

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
    """Run a command in a process of the cluster and write its lines here. Raises the error of a bad input, and
    SearchFailed if process after process is lost.

    order: gives the command for the work that is left; it is called again after a process is lost
    """

    async def read(actor: Any) -> None:
        with suppress(RayError):  # the other call reports a lost process
            while lines := await actor.read_lines.remote():
                for stream, line in lines:
                    write(stream, line)

    async def carry_out(actor: Any, task: ClusterTask) -> CommandOutcome:
        if not await _wait_for_node(pool, actor, name):
            return CommandOutcome(INTERRUPTED)
        reading = asyncio.create_task(read(actor))
        try:
            outcome: CommandOutcome = await pool.ask(actor, "command", order())
            await reading
            return outcome
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    outcomes = await pool.work([ClusterTask(name)], carry_out)
    return outcomes[0] if outcomes else CommandOutcome(INTERRUPTED)


async def _wait_for_node(pool: ActorPool, actor: Any, name: str) -> bool:
    """Wait until the process is on a node; False if interrupted before. Raises RayError if the process is lost."""
    began, reported = time.monotonic(), False
    located = asyncio.ensure_future(_find_node(actor))
    try:
        while not (await asyncio.wait({located}, timeout=LOOK_SECONDS))[0]:
            if pool.stopping is not None:
                return False
            if not reported and time.monotonic() - began > NOTICE_SECONDS:
                reported = True
                pool.report(f"{name} waits for a node with free resources ({pool.place.options.describe_task()})")
        await located
        return True
    finally:
        located.cancel()


async def _find_node(actor: Any) -> str:
    return str(await actor.find_node.remote())
