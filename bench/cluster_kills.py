"""Nodes of a Ray cluster killed at random moments while it searches: what was committed stays, nothing is done twice.

    PYTHONPATH=.:tests python bench/cluster_kills.py --kills 30

Starts a PostgreSQL server and a cluster of three nodes on this machine, deals one run out to them, and kills one node
after another, each replaced by a new one. Then compares with the same run on one machine: every sequence once, what was
committed before a kill there after it, the rows equal. Prints one line a kill and a summary; exit code 1 on any loss.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter

from postgres import PostgresServer
from ray_clusters import Nodes, ray_cluster
from stored_rows import stored_answers

from bench.shard_kills import PROBLEMS, search_whole, sequences
from evo.cluster import open_runner
from evo.config.run import RunConfig
from evo.runs.launch import plan_run
from evo.runs.result import Ended
from evo.search.resources import Resources
from islands.db.shards import read_cluster_state, read_shards
from islands.db.store import Store


async def search_on(address: str, db: str) -> Ended:
    runner = open_runner(address, db)
    try:
        await runner.prepare([])
        return await runner.search_run("run")
    finally:
        await runner.close()


def kill_nodes(cluster: Nodes, db: str, kills: int, chance: random.Random, running: threading.Thread) -> list[set[int]]:
    """The sequences that were committed before each kill; ends early with the run."""
    before: list[set[int]] = []
    while len(before) < kills and running.is_alive():
        known = len(sequences(db))
        while running.is_alive() and len(sequences(db)) < known + 2:
            time.sleep(0.2)
        time.sleep(2 * chance.random())
        if not running.is_alive():
            break
        before.append(set(sequences(db)))
        cluster.kill_node(chance.randrange(len(cluster)))
        print(f"{time.strftime('%H:%M:%S')}  kill {len(before)}: {len(before[-1])} groups committed", flush=True)
        cluster.add_node()
    return before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=400, help="of each problem; enough for all kills")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of a policy call")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    config = RunConfig.model_validate(
        {
            "problems": ["maze:test"],
            "limit": PROBLEMS,
            "policy": f"scripted:mutate?latency={arguments.latency}",
            "iterations": arguments.iterations,
            "rollouts": 2,
            "answers": 1,
            "seed": arguments.seed,
        }
    )
    server = PostgresServer.start()
    try:
        with server.database() as db, ray_cluster(3) as cluster, tempfile.TemporaryDirectory() as folder:
            plan_run(config, Resources(), db=db, name="run", command="bench/cluster_kills.py")
            ended: list[Ended] = []
            address = cluster.address
            thread = threading.Thread(target=lambda: ended.append(asyncio.run(search_on(address, db))))
            thread.start()
            before = kill_nodes(cluster, db, arguments.kills, random.Random(arguments.seed), thread)
            thread.join()
            found = sequences(db)
            with Store.open(db, read_only=True) as store:
                said = read_cluster_state(store, "run")
                begun = [shard.begun for shard in read_shards(store, store.run("run").id)]
            whole = f"sqlite:///{folder}/whole.db"
            quick = config.model_copy(update={"policy": "scripted:mutate"})
            asyncio.run(search_whole(whole, quick))
            same = stored_answers(db, "run") == stored_answers(whole, "run")
    finally:
        server.stop()
    once = Counter(found) == Counter(range(PROBLEMS * arguments.iterations))
    kept = all(sequence_set <= set(found) for sequence_set in before)
    outcome = ended[0].outcome if ended else "died"
    lost = said[0]["lost"] if said is not None else 0
    print(
        f"{len(before)} nodes killed, {lost} tasks lost and restarted (shards begun {begun} times), run {outcome}: "
        f"{len(found)} groups, each once: {once}; all that was committed kept: {kept}; rows of one machine: {same}"
    )
    return 0 if once and kept and same and outcome == "done" else 1


if __name__ == "__main__":
    sys.exit(main())
