"""Runs of a comparison on a Ray cluster: a runner like those of evo.comparison.workers on one machine.

Each run is a task of one process. Ray reports a process or a node that is gone; the task then continues in another
process. If the first one was only unreachable, the database refuses its writes, so nothing is committed twice.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from evo.cluster.connection import check_database, check_resources, connect, count_slots, leave, list_import_path
from evo.cluster.scoring import start_scorer_actors
from evo.cluster.worker import ClusterWorker
from evo.comparison.workers import SeedBatch
from evo.config.cluster import ClusterAddress
from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.runs.start import UNCHANGED, Changes
from evo.search.resources import policy_key
from evo.search.stop import Stop
from islands.errors import DatabaseUnavailable, RunBusy
from islands.runs import group_count
from islands.store import Store
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.redaction import redact
from problems.sandbox.contract import Mode
from problems.scoring import CPUS, GPUS, describe_resources, most_of

MOST_LOST = 5
"""Processes that a task may lose in a row without a committed iteration."""
BUSY_SECONDS, BUSY_TRIES = 5.0, 30
"""Pause between attempts, and their number. A run whose writer was lost on another machine is busy for a while; a
database server may come back after a restart."""


@dataclass
class ClusterTask:
    """A run. lost: how often its process was lost; fruitless: how often in a row without progress; groups: those in the
    database at the last loss"""

    run: str
    lost: int = 0
    fruitless: int = 0
    groups: int = -1


class ClusterRunner:
    """Searches on a cluster. Used once: prepare, search, close."""

    def __init__(self, place: ClusterAddress, db: str) -> None:
        self.place, self.db = place, db
        self.stopping: Stop | None = None
        self._waiting: deque[ClusterTask] = deque()
        self._actors: list[Any] = []
        self._scorer_actors: list[Any] = []
        self._mode: Mode = "auto"  # of the sandbox in which they score
        self._must_leave = False

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Join the cluster and load every policy in one process there, as a check. Raises BadInput."""
        self._must_leave = await asyncio.to_thread(connect, self.place)
        check_database(self.db, self.place)
        check_resources(self.place)
        different = list({policy_key(config): config for config in configs}.values())
        actor = self._start()
        try:
            await _ask(actor, "prepare", different)
        finally:
            self._end(actor)

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Search every run as a task, in their order, as processes become free. If one fails, the others continue."""
        self._waiting.extend(ClusterTask(name) for batch in seed_batches for name in batch)
        self._start_scorer_actors([task.run for task in self._waiting])
        slots = min(len(self._waiting), count_slots(self.place))
        serving = [asyncio.create_task(self._serve(changes)) for _ in range(slots)]
        try:
            await asyncio.gather(*serving)
        except BaseException:
            for slot in serving:
                slot.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            raise

    async def _serve(self, changes: Changes) -> None:
        """One process after another, each for as many tasks as it lives."""
        actor: Any = None
        while self._waiting and self.stopping is None:
            task = self._waiting.popleft()
            actor = actor or self._start()
            try:
                await self._search_when_free(actor, task, changes)
            except RayError as error:
                self._end(actor)
                actor = None
                self._lose(task, error)
        if actor is not None:
            self._end(actor)

    async def _search_when_free(self, actor: Any, task: ClusterTask, changes: Changes) -> None:
        """Search a task; wait for a run that another process still holds, or for the database."""
        reported = None
        for attempt in range(BUSY_TRIES + 1):
            try:
                await _ask(actor, "search", task.run, self.db, changes, task.lost > 0)
                return
            except (RunBusy, DatabaseUnavailable) as error:
                if self.stopping is not None or attempt == BUSY_TRIES:
                    raise
                if reported is not type(error):  # once for all attempts
                    reported = type(error)
                    _warn(f"{task.run} waits up to {BUSY_TRIES * BUSY_SECONDS:.0f} s: {error}")
                await asyncio.sleep(BUSY_SECONDS)

    def _lose(self, task: ClusterTask, error: RayError) -> None:
        """Give the task to another process. Raises SearchFailed if it has lost MOST_LOST in a row without progress."""
        groups = self._count_committed(task.run)
        task.lost += 1
        task.fruitless = task.fruitless + 1 if groups <= task.groups else 1
        task.groups = groups
        reason = " ".join(str(error).split())[:160]
        if task.fruitless >= MOST_LOST:
            lost = f"{MOST_LOST} processes were lost in a row with nothing committed"
            raise SearchFailed(f"{task.run}: {lost} ({reason})")
        _warn(f"{task.run} lost its process and continues in another, after {groups} iterations ({reason})")
        self._waiting.appendleft(task)

    def _start(self) -> Any:
        """Start a process on any node with room."""
        options = self.place.options
        remote = ray.remote(ClusterWorker).options(
            num_cpus=options.cpus, num_gpus=options.gpus, resources=options.resources or None, max_restarts=0
        )
        actor: Any = remote.remote(str(Path.cwd()), list_import_path(), self._scorer_actors, self._mode)
        self._actors.append(actor)
        return actor

    def _end(self, actor: Any) -> None:
        if actor in self._actors:
            self._actors.remove(actor)
            ray.kill(actor)

    def _start_scorer_actors(self, runs: Sequence[str]) -> None:
        """Start the scoring processes, with the resources that these runs' scorers declare or that --ray sets."""
        with Store.open(self.db, read_only=True) as store:
            configs = [store.run(name).config for name in runs]
        taken = most_of(config.get("scoring_resources") or {} for config in configs)
        self._mode = configs[0].get("sandbox") or "auto"
        self.place = self.place.for_scorers(taken)
        options = self.place.options
        named = taken.keys() - {CPUS, GPUS, *options.resources}
        if not options.scorers and (named or taken.get(GPUS, 0) > options.gpus):
            _warn(
                f"scoring takes {describe_resources(taken)}, but the tasks, which score, do not reserve it: ?scorers=N "
                "starts scoring processes that do"
            )
        check_resources(self.place)
        self._scorer_actors = start_scorer_actors(options)

    def interrupt(self, stop: Stop) -> None:
        """Finish what is in flight, commit it, and end; begin no further task."""
        self.stopping = stop
        for actor in self._actors:
            actor.interrupt.remote(str(stop))

    async def close(self) -> None:
        for actor in [*self._actors, *self._scorer_actors]:
            ray.kill(actor)
        self._actors, self._scorer_actors = [], []
        if self._must_leave:
            await asyncio.to_thread(leave)

    def _count_committed(self, run: str) -> int:
        """The iterations of a run in the database; 0 while the database is unavailable."""
        try:
            with Store.open(self.db, read_only=True) as store:
                return group_count(store, store.run(run).id)[0]
        except DatabaseUnavailable:
            return 0


async def _ask(actor: Any, method: str, *arguments: Any) -> None:
    """Call a worker's method. Raises the worker's fault, WorkerFailed for a bug, or RayError if the process is gone."""
    try:
        answer: WorkerAnswer = await getattr(actor, method).remote(*arguments)
    except RayTaskError as error:
        raise WorkerFailed(f"a worker failed in {method}: {error}") from None
    answer.result()


def _warn(text: str) -> None:
    warnings.warn(redact(text), stacklevel=2)
