"""Searches on a Ray cluster of three nodes: the rows of one machine, whatever is killed while they run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from support.stored_rows import assert_same_run, stored_answers
from support.waiting_run import plan_run

from evo.comparison.plan import planned_runs, start_comparison
from evo.comparison.workers import Runner
from evo.config.compare import read_comparison
from evo.config.parse import parse
from evo.config.run import RunConfig
from evo.runs.finish import Ended, read_ended, run_to_end
from evo.runs.start import start_run
from islands.runs import group_count
from islands.store import Store

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")

from support.ray_clusters import Nodes, ray_cluster  # noqa: E402

from evo.cluster import open_runner  # noqa: E402

pytestmark = pytest.mark.long

SETTINGS = {"problems": ["maze:test"], "limit": 6, "rollouts": 2, "answers": 1, "seed": 5}


def config(iterations: int, policy: str = "scripted:mutate?latency=0.05") -> RunConfig:
    return RunConfig.model_validate({**SETTINGS, "iterations": iterations, "policy": policy})


async def search_whole(db: str, settings: RunConfig) -> None:
    opening = partial(start_run, settings, db=db, name="run", command="test")
    await run_to_end(opening, lambda run: contextlib.nullcontext())


def rows_of_one_machine(folder: Path, settings: RunConfig) -> list[tuple]:
    db = f"sqlite:///{folder}/whole.db"
    asyncio.run(search_whole(db, settings))
    return stored_answers(db, "run")


async def search_on(cluster: Nodes, db: str, name: str) -> Ended:
    runner = open_runner(cluster.address, db)
    try:
        await runner.prepare([])
        await runner.search(db, [[name]])
        return read_ended(db, [name])[0]
    finally:
        await runner.close()


def sequences(db: str) -> list[int]:
    with Store.open(db, read_only=True) as store, store.read() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT sequence FROM prompt_groups")]


def test_a_comparison_on_three_nodes(cluster, postgres_address, tmp_path):
    compared = read_comparison(
        None,
        {
            **{"problems": ["maze:test"], "limit": 2, "iterations": 6, "answers": 1, "seeds": 2, "baselines": []},
            "arms": {"mutate": {"policy": "scripted:mutate"}, "vary": {"policy": "scripted:mutate"}},
        },
    )
    runs = planned_runs(compared)
    configs = [parse(RunConfig, run.config, run.arm) for run in runs]
    here = f"sqlite:///{tmp_path}/here.db"

    async def search(runner: object, db: str) -> list[Ended]:
        try:
            await runner.prepare(configs)
            name, batches = start_comparison(db, "c", runs, "test")
            await runner.search(db, batches)
            return read_ended(db, [run for batch in batches for run in batch])
        finally:
            await runner.close()

    asyncio.run(search(Runner(), here))
    ended = asyncio.run(search(open_runner(cluster.address, postgres_address), postgres_address))
    assert [one.outcome for one in ended] == ["done"] * 4
    assert_same_run(stored_answers(postgres_address), stored_answers(here))


def test_nodes_killed_at_random_moments_cost_nothing_committed(cluster, postgres_address, tmp_path):
    """Three nodes are lost, one after another, in the middle of a run; each is replaced. What was committed before a
    loss is there after it, nothing is twice, and the rows are those of one machine."""
    settings = config(60, "scripted:mutate?latency=0.3")
    plan_run(settings, postgres_address)
    ended, seen = kill_while_it_runs(cluster, postgres_address, random.Random(1), 3)
    assert ended.outcome == "done"
    found = sequences(postgres_address)
    assert Counter(found) == Counter(range(360))
    assert all(before <= set(found) for before in seen)
    assert_same_run(stored_answers(postgres_address, "run"), rows_of_one_machine(tmp_path, settings))


def kill_while_it_runs(cluster: Nodes, db: str, chance: random.Random, kills: int) -> tuple[Ended, list[set[int]]]:
    """How the run ended, and the sequences that were committed before each kill. Nodes are started in this thread."""
    ended: list[Ended] = []
    thread = threading.Thread(target=lambda: ended.append(asyncio.run(search_on(cluster, db, "run"))))
    thread.start()
    seen: list[set[int]] = []
    for _ in range(kills):
        known = sequences(db)
        seen.append(set(_wait_for_groups(db, known, 6)))
        time.sleep(chance.random())
        cluster.kill_node(chance.randrange(len(cluster)))
        cluster.add_node()
    thread.join(600)
    return ended[0], seen


def _wait_for_groups(db: str, known: list[int], more: int) -> list[int]:
    until = time.monotonic() + 240
    while time.monotonic() < until:
        found = sequences(db)
        if len(found) >= len(known) + more:
            return found
        time.sleep(0.2)
    raise AssertionError("no groups were committed")


def test_the_head_is_killed_and_the_run_goes_on_in_another_cluster(postgres_address, tmp_path):
    settings = config(16, "scripted:mutate?latency=0.3")
    plan_run(settings, postgres_address)
    tests = Path(__file__).parents[2]
    script = (
        "import asyncio, sys\n"
        "from evo.cluster import open_runner\n"
        "async def main(address, db):\n"
        "    runner = open_runner(address, db)\n"
        "    await runner.prepare([])\n"
        "    await runner.search(db, [['run']])\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tests.parent}:{tests}"}
    with ray_cluster(1) as first:
        command = [sys.executable, "-c", script, first.address, postgres_address]
        driver = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            _wait_for_groups(postgres_address, [], 10)
            first.kill_head()
            with Store.open(postgres_address, read_only=True) as store:
                before = group_count(store, store.run("run").id)[0]
        finally:
            driver.kill()
            driver.wait()
    with ray_cluster(1) as second:
        assert asyncio.run(search_on(second, postgres_address, "run")).outcome == "done"
    assert before >= 10
    assert Counter(sequences(postgres_address)) == Counter(range(96))
    assert_same_run(stored_answers(postgres_address, "run"), rows_of_one_machine(tmp_path, settings))
