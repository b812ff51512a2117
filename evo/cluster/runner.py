"""Runs of a comparison, and shards of a run, on a Ray cluster: a Runner (evo.comparison.runner) like those on one
machine."""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from evo.cluster.actor_pool import ActorPool
from evo.cluster.connection import check_database, check_room, connect, leave
from evo.cluster.scoring import start_scorer_actors
from evo.cluster.summary import ended_by, merge_problems, merge_shards, outcome_of
from evo.cluster.task import ClusterTask
from evo.comparison.runner import SeedBatch
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
        self._pool = ActorPool(place, self._committed)
        self._pool.warning = lambda text: warnings.warn(text, stacklevel=2)
        self._ours = self._connected = False

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Join the cluster and let one process there load every policy, to find what is wrong. Raises BadInput."""
        self._ours = await asyncio.to_thread(connect, self.place)
        self._connected = True
        check_database(self.db, self.place)
        await self._start_engines(configs)
        check_room(self.place, self._pool.engine_pool.taken)
        different = list({policy_key(config): config for config in configs}.values())
        actor = self._pool.start()
        try:
            await self._pool.ask(actor, "prepare", different)
        finally:
            self._pool.drop(actor)

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> list[Ended]:
        """Every run is a task of its own; how each ended. A search that fails leaves the others running."""
        tasks = [ClusterTask(name) for batch in seed_batches for name, _ in batch]
        name = tasks[0].run.split("/")[0] if tasks else ""
        await self._start_engines(self._stored(task.run) for task in tasks)
        self._start_judges(task.run for task in tasks)
        with Store.open(db) as store:
            async with self._reporting(store, name, None):
                found: list[Ended] = await self._pool.work(tasks, self._searching(changes))
        return found

    async def search_run(self, name: str, changes: Changes = UNCHANGED) -> Ended:
        """One run, its problems dealt out to as many tasks as fit, or as it was dealt before."""
        options = self.place.options
        with Store.open(self.db) as store:
            dealt = bool(read_shards(store, store.run(name).id))
        if options.shards == 1 and not dealt:
            return (await self.search(self.db, [[(name, RunConfig())]], changes))[0]
        await self._start_engines([self._stored(name)])
        self._start_judges([name])
        actor = self._pool.start()
        try:
            problems = await self._pool.ask(actor, "open", name, self.db, changes, self._mode(name))
        finally:
            self._pool.drop(actor)
        with Store.open(self.db) as store:
            run = store.run(name)
            store.lease(run.id)
            count = plan_shards(store, run.id, min(problems, options.shards or self._pool.slots()))
            revoke_shards(store, run.id)
            left = [one.number for one in read_shards(store, run.id) if changes or one.status != "done"]
            self._pool.tell(f"{name}: {problems} problems in {count} shards, {len(left)} of them unfinished")
            async with self._reporting(store, name, run.id):
                tasks = [ClusterTask(name, number) for number in left]
                try:
                    ended: list[Ended] = await self._pool.work(tasks, self._searching(changes))
                except SearchFailed as error:
                    store.finish_run(run.id, "failed", str(error), summary=run.summary)
                    raise
            shards = read_shards(store, run.id)
            outcome, why = outcome_of(shards)
            head = {"run": name, "outcome": outcome, "reason": why, "ended_by": ended_by(shards)}
            head["policy"] = run.config["policy"]
            summary = {**head, "sandbox": run.config.get("sandbox", ""), "problems": merge_problems(shards)}
            merged = merge_shards(shards, run_totals(store, run.id), time.time())
            store.finish_run(run.id, outcome, why, summary={**summary, **merged})
        return Ended(name, outcome, why, tuple(dict.fromkeys(fault for one in ended for fault in one.faults)))

    async def _start_engines(self, configs: Iterable[RunConfig]) -> None:
        """Engines with replicas, before anything that asks them."""
        await asyncio.to_thread(self._pool.engine_pool.start, list(configs), self._pool.tell)

    def _stored(self, name: str) -> RunConfig:
        with Store.open(self.db, read_only=True) as store:
            return parse(RunConfig, complete_run(store.run(name).config), f"run {name}")

    def _start_judges(self, runs: Iterable[str]) -> None:
        """The scoring processes, which take what these runs' scorers say unless the address says otherwise."""
        with Store.open(self.db, read_only=True) as store:
            taken = most_of(store.run(name).config.get("scoring_resources") or {} for name in runs)
        self.place = self._pool.place = self.place.for_scorers(taken)
        options = self.place.options
        named = taken.keys() - {CPUS, GPUS, *options.resources}
        if not options.scorers and (named or taken.get(GPUS, 0) > options.gpus):
            self._pool.tell(
                f"scoring takes {describe_resources(taken)}, which the tasks, who score, do not ask for: ?scorers=N "
                "starts scoring processes that do"
            )
        check_room(self.place, self._pool.engine_pool.taken)
        self._pool.scorer_actors = start_scorer_actors(options)

    def _searching(self, changes: Changes) -> Callable[[Any, ClusterTask], Awaitable[Ended]]:
        async def search(actor: Any, task: ClusterTask) -> Ended:
            order = (task.run, task.shard, self.db, changes, task.lost > 0, self._mode(task.run))
            found: Ended = await self._pool.ask(actor, "search", *order)
            return found

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
            if self._ours:
                await asyncio.to_thread(leave)

    @contextlib.asynccontextmanager
    async def _reporting(self, store: Store, name: str, run_id: int | None) -> AsyncIterator[None]:
        """Put the state of the work on record now and then, and with a run in shards what they come to together."""

        def report() -> None:
            with contextlib.suppress(DatabaseUnavailable):  # the workers wait for it, and so does this
                write_cluster_state(store, name, self._pool.state())
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

    def _mode(self, name: str) -> Mode:
        """The sandbox that a run is scored in."""
        with Store.open(self.db, read_only=True) as store:
            mode: Mode = store.run(name).config.get("sandbox") or "auto"
        return mode

    def _committed(self, task: ClusterTask) -> int:
        """Groups of a task's run that the database holds; 0 while it cannot be asked."""
        try:
            with Store.open(self.db, read_only=True) as store:
                return group_count(store, store.run(task.run).id)[0]
        except DatabaseUnavailable:
            return 0
