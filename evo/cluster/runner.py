"""Runs of a comparison on a Ray cluster: a SearchRunner like those of evo.comparison.workers on one machine.

Each run is a task. Ray reports a process or a node that is gone; the run then continues in another task. If the first
one was only unreachable, the database refuses its writes, so nothing is committed twice.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from evo.cluster.connection import check_room_for_tasks, check_shared_database, connect, list_import_path
from evo.cluster.node import Bell, Surroundings, load_policies, search_run, start_scorer_actors
from evo.comparison.workers import SeedBatch
from evo.config.cluster import ClusterAddress
from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.runs.start import UNCHANGED, Changes
from evo.search.resources import policy_key
from evo.search.sampler import cancel_all
from evo.search.stop import Stop
from islands.store import Store
from problems.child_process import WorkerAnswer, WorkerFailed
from problems.redaction import redact
from problems.sandbox.contract import Mode
from problems.scoring import CPUS, GPUS, describe_resources, most_of

_MOST_LOST = 5
"""Tasks that a run may lose."""


class ClusterRunner:
    """Searches on a cluster. Used once: prepare, search, close."""

    def __init__(self, place: ClusterAddress, db: str) -> None:
        self.place, self.db = place, db
        self.stopping: Stop | None = None
        self._tasks: list[Any] = []
        self._surroundings = Surroundings(str(Path.cwd()), list_import_path(), None)
        self._must_leave = False

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Join the cluster and load every policy in one task there, as a check. Raises BadInput."""
        self._must_leave = await asyncio.to_thread(connect, self.place)
        check_shared_database(self.db, self.place)
        check_room_for_tasks(self.place)
        bell: Any = ray.remote(Bell).options(num_cpus=0, max_restarts=-1, max_task_retries=-1)
        self._surroundings = replace(self._surroundings, bell=bell.remote())
        await self._run(load_policies, list({policy_key(config): config for config in configs}.values()))

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> None:
        """Search every run as a task; Ray begins them in their order, as resources become free."""
        names = [name for batch in seed_batches for name in batch]
        self._start_scorer_actors(names)
        searching = [asyncio.create_task(self._search(name, changes)) for name in names]
        try:
            await asyncio.gather(*searching)
        finally:
            await cancel_all(searching)

    async def _search(self, run: str, changes: Changes) -> None:
        for lost in range(_MOST_LOST):
            try:
                return await self._run(search_run, run, self.db, changes, lost > 0)
            except RayError as error:
                reason = " ".join(str(error).split())[:160]
                _warn(f"{run} lost its process and continues in another ({reason})")
        raise SearchFailed(f"{run}: {_MOST_LOST} processes were lost ({reason}); evo resume continues")

    async def _run(self, function: Callable[..., WorkerAnswer], *arguments: Any) -> None:
        """Call a function of evo.cluster.node on any node with room. Raises its fault, WorkerFailed for a bug, or
        RayError if its process is gone."""
        options = self.place.options
        remote = ray.remote(function).options(
            num_cpus=options.cpus, num_gpus=options.gpus, resources=options.resources or None, max_retries=0
        )
        task = remote.remote(self._surroundings, *arguments)
        self._tasks.append(task)
        try:
            answer: WorkerAnswer = await task
        except RayTaskError as error:
            raise WorkerFailed(f"a task failed in {function.__name__}: {error}") from None
        answer.result()

    def _start_scorer_actors(self, runs: Sequence[str]) -> None:
        """Start the scoring processes, with the resources that these runs' scorers declare or that --ray sets."""
        with Store.open(self.db, read_only=True) as store:
            configs = [store.run(name).config for name in runs]
        taken = most_of(config.get("scoring_resources") or {} for config in configs)
        self.place = self.place.for_scorers(taken)
        options = self.place.options
        named = taken.keys() - {CPUS, GPUS, *options.resources}
        if not options.scorers and (named or taken.get(GPUS, 0) > options.gpus):
            _warn(
                f"scoring takes {describe_resources(taken)}, but the tasks, which score, do not reserve it: ?scorers=N "
                "starts scoring processes that do"
            )
        check_room_for_tasks(self.place)
        mode: Mode = configs[0].get("sandbox") or "auto"
        actors = start_scorer_actors(options)
        self._surroundings = replace(self._surroundings, scorer_actors=actors, mode=mode)

    def interrupt(self, stop: Stop) -> None:
        """Finish what is in flight, commit it, and end; begin no further task."""
        self.stopping = stop
        if self._surroundings.bell is not None:
            self._surroundings.bell.ring.remote(str(stop))

    async def close(self) -> None:
        for task in self._tasks:
            ray.cancel(task, force=True)
        for actor in (self._surroundings.bell, *self._surroundings.scorer_actors):
            if actor is not None:
                ray.kill(actor)
        if self._must_leave:
            await asyncio.to_thread(ray.shutdown)


def _warn(text: str) -> None:
    warnings.warn(redact(text), stacklevel=2)
