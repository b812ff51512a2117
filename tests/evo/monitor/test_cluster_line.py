"""What a watcher is told of a cluster."""

from __future__ import annotations

from evo.cli.lines import plain_lines
from evo.config.run import RunConfig
from evo.monitor.poller import Poller
from evo.runs.planned import plan_run
from evo.search.resources import Shared
from islands.db.shards import write_cluster_state
from islands.db.store import Store

NODES = [{"node": "a", "alive": True}, {"node": "b", "alive": True}, {"node": "c", "alive": False}]
STATE = {"nodes": NODES, "running": ["r shard 0"], "waiting": 2, "done": 1, "lost": 3, "restarted": 3}


def test_nodes_tasks_and_losses_are_a_line_of_their_own(tmp_path):
    db = f"sqlite:///{tmp_path}/runs.db"
    config = RunConfig.model_validate({"problems": ["maze:test"], "limit": 1, "policy": "scripted:mutate"})
    for name in ("here", "there"):
        plan_run(config, Shared(), db=db, name=name, command="test")
    with Store.open(db) as store:
        write_cluster_state(store, "there", {"nodes": []})
        write_cluster_state(store, "there", STATE)
        here, there = (Poller(store, name).poll() for name in ("here", "there"))
    assert here.cluster == "" and len(plain_lines(here, 0.0)) == 1
    assert there.cluster == "2 nodes (1 gone); 1 tasks, 2 waiting, 1 done; 3 lost, 3 restarted"
    assert plain_lines(there, 0.0)[-1].endswith(there.cluster)
