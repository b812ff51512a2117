"""Runs of a comparison, and shards of a run, on a Ray cluster: a Runner (evo.comparison.workers) like those on one
machine."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from evo.cluster.actor_pool import ActorPool
from evo.cluster.connection import check_database, check_resources, connect, leave
from evo.cluster.scoring import start_scorer_actors
from evo.cluster.summary import find_cause, merge_outcomes, merge_problems, merge_shards
from evo.cluster.task import ClusterTask
from evo.comparison.workers import SeedBatch
from evo.config.cluster import ClusterAddress
from evo.config.parse import parse
from evo.config.run import RunConfig, complete_run
from evo.errors import SearchFailed
from evo.runs.result import Ended
from evo.runs.scorer_change import UNCHANGED, Changes
from evo.search.resources import policy_key
from evo.search.stop import FINISHING, Stop
from islands.db.shards import plan_shards, read_shards, revoke_shards, write_cluster_state
from islands.db.store import Store
from islands.db.totals import run_totals
from islands.errors import DatabaseUnavailable
from islands.queries.progress import group_count
from problems.resources import CPUS, GPUS, describe_resources, most_of
from problems.sandbox.contract import Mode

STATE_SECONDS = 1.0


class ClusterRunner:
    """Searches on a cluster. Used once: prepare, search or search_run, close."""

    def __init__(self, place: ClusterAddress, db: str) -> None:
        self.place, self.db = place, db
        self.paused = False
        self.stopping: Stop | None = None
        self._pool = ActorPool(place, self._count_committed)
        self._pool.warning = lambda text: warnings.warn(text, stacklevel=2)
        self._must_leave = self._connected = False

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Join the cluster and load every policy in one process there, as a check. Raises BadInput."""
        self._must_leave = await asyncio.to_thread(connect, self.place)
        self._connected = True
        check_database(self.db, self.place)
        await asyncio.to_thread(self._pool.engine_pool.reserve, configs)
        check_resources(self.place, self._pool.engine_pool.taken)  # before engines are loaded, which takes minutes
        await self._start_engines(configs)
        different = list({policy_key(config): config for config in configs}.values())
        actor = self._pool.start()
        try:
            await self._pool.ask(actor, "prepare", different)
        finally:
            self._pool.drop(actor)

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> list[Ended]:
        """Search every run as a separate task; returns how each ended. If one fails, the others continue."""
        tasks = [ClusterTask(name) for batch in seed_batches for name, _ in batch]
        name = tasks[0].run.split("/")[0] if tasks else ""
        await self._start_engines(self._read_config(task.run) for task in tasks)
        self._start_scorer_actors(task.run for task in tasks)
        with Store.open(db) as store:
            async with self._reporting(store, name, None):
                ended: list[Ended] = await self._pool.work(tasks, self._make_search(changes))
        return ended

    async def search_run(self, name: str, changes: Changes = UNCHANGED) -> Ended:
        """Search one run, with its problems divided into as many shards as fit, or as they were divided before."""
        options = self.place.options
        with Store.open(self.db) as store:
            divided = bool(read_shards(store, store.run(name).id))
        if options.shards == 1 and not divided:
            return (await self.search(self.db, [[(name, RunConfig())]], changes))[0]
        await self._start_engines([self._read_config(name)])
        self._start_scorer_actors([name])
        actor = self._pool.start()
        try:
            problems = await self._pool.ask(actor, "open", name, self.db, changes, self._read_mode(name))
        finally:
            self._pool.drop(actor)
        with Store.open(self.db) as store:
            run = store.run(name)
            store.lease(run.id)
            count = plan_shards(store, run.id, min(problems, options.shards or self._pool.count_slots()))
            revoke_shards(store, run.id)
            left = [shard.number for shard in read_shards(store, run.id) if changes or shard.status != "done"]
            self._pool.report(f"{name}: {problems} problems in {count} shards, {len(left)} of them unfinished")
            async with self._reporting(store, name, run.id):
                tasks = [ClusterTask(name, number) for number in left]
                try:
                    ended: list[Ended] = await self._pool.work(tasks, self._make_search(changes))
                except SearchFailed as error:
                    store.finish_run(run.id, "failed", str(error), summary=run.summary)
                    raise
            shards = read_shards(store, run.id)
            outcome, why = merge_outcomes(shards)
            head = {"run": name, "outcome": outcome, "reason": why, "ended_by": find_cause(shards)}
            head["policy"] = run.config["policy"]
            summary = {**head, "sandbox": run.config.get("sandbox", ""), "problems": merge_problems(shards)}
            merged = merge_shards(shards, run_totals(store, run.id), time.time())
            store.finish_run(run.id, outcome, why, summary={**summary, **merged})
        return Ended(name, outcome, why, tuple(dict.fromkeys(fault for part in ended for fault in part.faults)))

    async def _start_engines(self, configs: Iterable[RunConfig]) -> None:
        """Start the engines with replicas, before the tasks that use them."""
        await asyncio.to_thread(self._pool.engine_pool.start, list(configs), self._pool.report)

    def _read_config(self, name: str) -> RunConfig:
        with Store.open(self.db, read_only=True) as store:
            return parse(RunConfig, complete_run(store.run(name).config), f"run {name}")

    def _start_scorer_actors(self, runs: Iterable[str]) -> None:
        """Start the scoring processes, with the resources that these runs' scorers declare or that --ray sets."""
        with Store.open(self.db, read_only=True) as store:
            taken = most_of(store.run(name).config.get("scoring_resources") or {} for name in runs)
        self.place = self._pool.place = self.place.for_scorers(taken)
        options = self.place.options
        named = taken.keys() - {CPUS, GPUS, *options.resources}
        if not options.scorers and (named or taken.get(GPUS, 0) > options.gpus):
            self._pool.report(
                f"scoring takes {describe_resources(taken)}, but the tasks, which score, do not reserve it: ?scorers=N "
                "starts scoring processes that do"
            )
        check_resources(self.place, self._pool.engine_pool.taken)
        self._pool.scorer_actors = start_scorer_actors(options)

    def _make_search(self, changes: Changes) -> Callable[[Any, ClusterTask], Awaitable[Ended]]:
        async def search(actor: Any, task: ClusterTask) -> Ended:
            order = (task.run, task.shard, self.db, changes, task.lost > 0, self._read_mode(task.run))
            ended: Ended = await self._pool.ask(actor, "search", *order)
            return ended

        return search

    def pause(self) -> None:
        self.paused = True
        self._pool.pause(True)

    def resume(self) -> None:
        self.paused = False
        self._pool.pause(False)

    def interrupt(self, stop: Stop) -> None:
        """Finish what is in flight, commit it, and end; begin no further task."""
        self.stopping = stop
        self._pool.interrupt(str(stop))

    def stop(self) -> None:
        self.interrupt(FINISHING)

    async def close(self) -> None:
        if self._connected:
            self._pool.close()
            if self._must_leave:
                await asyncio.to_thread(leave)

    @contextlib.asynccontextmanager
    async def _reporting(self, store: Store, name: str, run_id: int | None) -> AsyncIterator[None]:
        """Record the state of the work every second, and for a run in shards their merged metrics."""

        def report() -> None:
            with contextlib.suppress(DatabaseUnavailable):  # the workers wait for the database too
                write_cluster_state(store, name, self._pool.describe())
                if run_id is None:
                    return
                summary = merge_shards(read_shards(store, run_id), run_totals(store, run_id), time.time())
                if summary:
                    with store.begin() as tx:
                        store.set_summary(run_id, summary, tx)

        async def keep_reporting() -> None:
            while True:
                await asyncio.to_thread(report)
                await asyncio.sleep(STATE_SECONDS)

        task = asyncio.create_task(keep_reporting())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(report)

    def _read_mode(self, name: str) -> Mode:
        """The sandbox that a run is scored in."""
        with Store.open(self.db, read_only=True) as store:
            mode: Mode = store.run(name).config.get("sandbox") or "auto"
        return mode

    def _count_committed(self, task: ClusterTask) -> int:
        """The number of groups of a task's run in the database; 0 while the database is unavailable."""
        try:
            with Store.open(self.db, read_only=True) as store:
                return group_count(store, store.run(task.run).id)[0]
        except DatabaseUnavailable:
            return 0
