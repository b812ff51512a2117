"""Replicas of an engine as actors of a Ray cluster: the rows of one engine, a node lost under one, what is told of it.

The engines are a stub of vLLM (tests/stubs/vllm.py)."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from stored_rows import assert_same_run, stored_answers
from training_runs import SMALL_POLICY
from vllm_stubbed import stubbed_vllm

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.runs.launch import launch, plan_run
from evo.runs.result import Ended, run_to_end
from evo.search.resources import Resources
from islands.db.shards import read_cluster_state
from islands.db.store import Store
from islands.queries.progress import group_count

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")

from ray_clusters import Nodes  # noqa: E402

from evo.cluster import open_runner  # noqa: E402

SETTINGS = {"problems": ["maze:test"], "limit": 4, "rollouts": 2, "answers": 1, "seed": 5, "max_new_tokens": 24}


def config(iterations: int, options: str = "") -> RunConfig:
    policy = f"vllm:{SMALL_POLICY}?threads=1{options}"
    return RunConfig.model_validate({**SETTINGS, "iterations": iterations, "policy": policy})


async def search_on(cluster: Nodes, db: str) -> Ended:
    runner = open_runner(f"{cluster.address}?shards=2", db)
    try:
        await runner.prepare([])
        return await runner.search_run("run")
    finally:
        await runner.close()


def rows_of_one_engine(folder: Path, iterations: int) -> list[tuple]:
    db = f"sqlite:///{folder}/whole.db"

    async def search() -> None:
        launched = await launch(config(iterations), db=db, name="run", command="test")
        try:
            await run_to_end(launched)
        finally:
            await launched.close()

    with stubbed_vllm():
        asyncio.run(search())
    return stored_answers(db, "run")


def engines_of(db: str) -> list[dict]:
    with Store.open(db, read_only=True) as store:
        said = read_cluster_state(store, "run")
    return [] if said is None else list(said[0].get("engines", []))


def groups_of(db: str) -> int:
    with Store.open(db, read_only=True) as store:
        return group_count(store, store.run("run").id)[0]


@pytest.mark.long
def test_a_run_over_replicas_on_nodes_of_which_one_dies(cluster, postgres_address, tmp_path):
    iterations = 40
    expected = rows_of_one_engine(tmp_path, iterations)
    plan_run(config(iterations, "&replicas=2"), Resources(), db=postgres_address, name="run", command="test")
    ended: list[Ended] = []
    thread = threading.Thread(target=lambda: ended.append(asyncio.run(search_on(cluster, postgres_address))))
    thread.start()
    until = time.monotonic() + 240
    while groups_of(postgres_address) < 8:
        assert thread.is_alive() and time.monotonic() < until
        time.sleep(0.1)
    engines = engines_of(postgres_address)
    assert [one["url"] for one in engines] == ["engine 0", "engine 1"]
    assert all(one["in"] and one["address"].endswith("&replicas=2") for one in engines)
    assert len({one["node"] for one in engines}) == 2
    cluster.kill_node_named(engines[0]["node"])
    cluster.add_node()
    thread.join(300)
    assert ended and ended[0].outcome == "done"
    assert_same_run(stored_answers(postgres_address, "run"), expected)
    last = engines_of(postgres_address)
    assert sum(one["answered"] for one in last) > 0
    assert not last[0]["in"] or last[0]["lost"] == 1  # not back yet, or begun anew


@pytest.mark.long
def test_more_engines_than_the_cluster_holds_are_refused_at_once(cluster, postgres_address):
    for replicas, said in [(4, "4 engines of 1 CPU exceed the cluster's 3"), (3, "leave no resources for a task")]:
        runner = open_runner(cluster.address, postgres_address)

        async def prepare(runner=runner, replicas=replicas) -> None:
            try:
                await runner.prepare([config(2, f"&replicas={replicas}")])
            finally:
                await runner.close()

        with pytest.raises(BadInput, match=said):
            asyncio.run(prepare())
