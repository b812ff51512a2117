"""Writers of shards killed at random moments: what was committed stays, nothing is done twice. No Ray: what its nodes
do with the database, at a rate of kills that starting nodes would not allow (bench/cluster_kills.py kills those).

    PYTHONPATH=.:tests python bench/shard_kills.py --kills 100

Starts a PostgreSQL server, deals one run into three shards, and lets a process search each. A process is killed
(SIGKILL) and replaced, or replaced while it still writes, as where a node is only unreachable: it must be refused. Then
compares with the same run on one machine. Prints a summary; exit code 1 on any loss.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter

from postgres import PostgresServer
from stored_rows import stored_answers

from evo.config.run import RunConfig
from evo.runs.launch import launch
from evo.runs.result import run_to_end
from evo.runs.resume import relaunch_shard
from islands.db.shards import plan_shards, read_shards
from islands.db.store import Store

PROBLEMS, SHARDS = 6, 3


def sequences(db: str) -> list[int]:
    with Store.open(db, read_only=True) as store, store.read() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT sequence FROM prompt_groups")]


async def search_whole(db: str, config: RunConfig) -> None:
    """The run on one machine, undisturbed."""
    launched = await launch(config, db=db, name="run", command="whole")
    try:
        await run_to_end(launched)
    finally:
        await launched.close()


async def plan(db: str, config: RunConfig) -> None:
    launched = await launch(config, db=db, name="run", command="bench/shard_kills.py")
    plan_shards(launched.store, launched.run.id, SHARDS)
    await launched.close()


def search_in_child(db: str, number: int) -> int:
    """A process that searches a shard to its end, by fork: it has everything imported. Its pid."""
    pid = os.fork()
    if pid:
        return pid

    async def search() -> None:
        launched = await relaunch_shard("run", number, db=db)
        try:
            await run_to_end(launched)
        finally:
            await launched.close()

    status = 1
    try:
        asyncio.run(search())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def statuses(db: str) -> list[str]:
    with Store.open(db, read_only=True) as store:
        return [shard.status for shard in read_shards(store, store.run("run").id)]


def kill_writers(db: str, kills: int, chance: random.Random, longest: float) -> tuple[list[set[int]], int]:
    """The sequences committed before each kill, and how many writers were replaced while they lived."""
    writers = [search_in_child(db, number) for number in range(SHARDS)]
    before: list[set[int]] = []
    late = 0
    while len(before) < kills:
        time.sleep(longest * chance.random())
        unfinished = [number for number, status in enumerate(statuses(db)) if status != "done"]
        if not unfinished:
            break
        number = chance.choice(unfinished)
        before.append(set(sequences(db)))
        old = writers[number]
        if chance.random() < 0.5:
            os.kill(old, signal.SIGKILL)
            writers[number] = search_in_child(db, number)
        else:
            late += 1
            writers[number] = search_in_child(db, number)
            time.sleep(longest * chance.random())
            os.kill(old, signal.SIGKILL)
        os.waitpid(old, 0)
    for number, pid in enumerate(writers):
        _, status = os.waitpid(pid, 0)
        while status:  # refused, or killed before it took the shard
            _, status = os.waitpid(search_in_child(db, number), 0)
    return before, late


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=300, help="of each problem; enough for all kills")
    parser.add_argument("--latency", type=float, default=0.2, help="seconds of a policy call")
    parser.add_argument("--longest", type=float, default=1.0, help="seconds between two kills at most")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = {
        "problems": ["maze:test"],
        "limit": PROBLEMS,
        "iterations": arguments.iterations,
        "rollouts": 2,
        "answers": 1,
        "seed": arguments.seed,
    }
    slow = RunConfig.model_validate({**settings, "policy": f"scripted:mutate?latency={arguments.latency}"})
    server = PostgresServer.start()
    try:
        with server.database() as db, tempfile.TemporaryDirectory() as folder:
            asyncio.run(plan(db, slow))
            before, late = kill_writers(db, arguments.kills, random.Random(arguments.seed), arguments.longest)
            found, ended = sequences(db), statuses(db)
            with Store.open(db, read_only=True) as store:
                begun = [shard.begun for shard in read_shards(store, store.run("run").id)]
            whole = f"sqlite:///{folder}/whole.db"
            asyncio.run(search_whole(whole, RunConfig.model_validate({**settings, "policy": "scripted:mutate"})))
            same = stored_answers(db, "run") == stored_answers(whole, "run")
    finally:
        server.stop()
    once = Counter(found) == Counter(range(PROBLEMS * arguments.iterations))
    kept = all(committed <= set(found) for committed in before)
    print(
        f"{len(before)} writers killed, {late} of them after another had their shard; shards begun {begun} times, "
        f"{ended}: {len(found)} groups, each once: {once}; all that was committed kept: {kept}; rows of one machine: "
        f"{same}"
    )
    return 0 if once and kept and same and set(ended) == {"done"} else 1


if __name__ == "__main__":
    sys.exit(main())
