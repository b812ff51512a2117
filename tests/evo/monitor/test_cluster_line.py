"""What a watcher is told of a cluster."""

from __future__ import annotations

from evo.cli.lines import format_line
from evo.config.run import RunConfig
from evo.monitor.cluster import describe_whole
from evo.monitor.poller import Poller
from evo.runs.launch import plan_run
from evo.search.resources import Resources
from islands.db.shards import write_cluster_state
from islands.db.store import Store

NODES = [{"node": "a", "alive": True}, {"node": "b", "alive": True}, {"node": "c", "alive": False}]
STATE = {"nodes": NODES, "running": ["r shard 0"], "waiting": 2, "done": 1, "lost": 3, "restarted": 3}


def test_nodes_tasks_and_losses_are_the_end_of_a_line(tmp_path):
    db = f"sqlite:///{tmp_path}/runs.db"
    config = RunConfig.model_validate({"problems": ["maze:test"], "limit": 1, "policy": "scripted:mutate"})
    for name in ("here", "there"):
        plan_run(config, Resources(), db=db, name=name, command="test")
    with Store.open(db) as store:
        write_cluster_state(store, "there", {"nodes": []})
        write_cluster_state(store, "there", STATE)
        here, there = (Poller(store, name).poll() for name in ("here", "there"))
    assert here.cluster == ""
    assert there.cluster == "2 nodes (1 gone); 1 tasks, 2 waiting, 1 done; 3 lost, 3 restarted"
    assert format_line(there, 0.0).endswith(there.cluster)


def test_engines_their_queues_and_those_that_are_out(tmp_path):
    one = {"address": "vllm:m?replicas=3", "url": "engine 0", "node": "aa"}
    one |= {"in": True, "load": 12, "answered": 40, "lost": 0}
    out = {**one, "url": "engine 1", "node": "bb", "in": False, "load": 0, "lost": 2}
    server = {**one, "address": "openai:m", "url": "http://h:1/v1", "node": "", "load": 1}
    nodes = [{"node": name, "host": "h", "alive": name == "aa", "cpus": 8.0, "gpus": 2.0} for name in ("aa", "bb")]
    events = [{"at": 1.0, "text": f"event {number}"} for number in range(9)]
    state = {**STATE, "nodes": nodes, "engines": [one, out, server], "events": events}
    db = f"sqlite:///{tmp_path}/runs.db"
    config = RunConfig.model_validate({"problems": ["maze:test"], "limit": 1, "policy": "scripted:mutate"})
    for name in ("here", "there"):
        plan_run(config, Resources(), db=db, name=name, command="test")
    with Store.open(db) as store:
        write_cluster_state(store, "there", state)
        assert "; 2 of 3 engines, 13 under way (out: engine 1 on bb); 3 lost" in Poller(store, "there").poll().cluster
        lines = describe_whole(store, "there")
        assert describe_whole(store, "here") == []
    assert lines[1:3] == ["  node aa (h): 8 CPUs, 2 GPUs", "  node bb (h): gone"]
    assert lines[4] == "  vllm:m?replicas=3, engine 1 on bb: out, 0 under way, 40 answered, lost 2 times"
    assert lines[5] == "  openai:m, http://h:1/v1: in, 1 under way, 40 answered"
    assert lines[6:] == [f"  event {number}" for number in range(4, 9)]
