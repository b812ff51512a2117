"""What is refused before a cluster is asked."""

from __future__ import annotations

import builtins
import socket
import sys

import pytest
from support.waiting_run import plan_run

from evo.cluster import open_runner
from evo.config.cluster import ClusterOptions, parse_cluster
from evo.config.run import RunConfig
from evo.errors import BadInput


def test_an_address_and_its_options():
    place = parse_cluster("head:6379?cpus=2&gpus=0.5&resources=fpga:1,disk:2.5&scorers=3")
    assert place.where == "head:6379" and str(place) == "head:6379"
    options = place.options
    assert (options.cpus, options.gpus, options.scorers) == (2, 0.5, 3)
    assert options.resources == {"fpga": 1.0, "disk": 2.5}
    assert parse_cluster("local").options.cpus == 1


def test_scoring_processes_take_what_the_scorers_say_unless_the_address_says_otherwise():
    taken = {"cpus": 2.0, "gpus": 1.0, "lab": 1.0}
    options = parse_cluster("local?scorers=2").for_scorers(taken).options
    assert (options.scorer_cpus, options.scorer_gpus, options.scorer_resources) == (2, 1, {"lab": 1})
    options = parse_cluster("local?scorers=2&scorer_gpus=0.5&scorer_resources=disk:1").for_scorers(taken).options
    assert (options.scorer_cpus, options.scorer_gpus, options.scorer_resources) == (2, 0.5, {"disk": 1})
    assert parse_cluster("local?scorers=2").for_scorers({}).options.scorer_cpus == 1
    assert options.scorers == 2 and options.cpus == 1


def test_a_stored_runs_scorers_decide_what_its_scoring_processes_take(monkeypatch, tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")
    from evo.cluster import runner as running

    scorer = tmp_path / "scorer.py"
    scorer.write_text(
        "isolated = False\nresources = {'gpus': 0.5}\nobjectives = ('a',)\ndef score(answer):\n    return {'a': 1}\n"
    )
    db = f"sqlite:///{tmp_path}/runs.db"
    config = RunConfig.model_validate({"problems": [str(scorer)], "policy": "scripted:mutate", "iterations": 8})
    plan_run(config, db)
    started: list[ClusterOptions] = []
    monkeypatch.setattr(running, "check_room_for_tasks", lambda place: None)
    monkeypatch.setattr(running, "start_scorer_actors", lambda options: started.append(options) or [])
    running.ClusterRunner(parse_cluster("local?scorers=2"), db)._start_scorer_actors(["run"])
    assert (started[0].scorers, started[0].scorer_gpus, started[0].scorer_cpus) == (2, 0.5, 1)
    with pytest.warns(UserWarning, match=r"scoring takes gpus 0.5, but the tasks, which score, do not reserve it"):
        running.ClusterRunner(parse_cluster("local"), db)._start_scorer_actors(["run"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nearby", "expected local, auto, or HOST:PORT"),
        ("auto?speed=3", "speed"),
        ("local?scorers=-1", "scorers"),
    ],
)
def test_what_is_no_cluster(text, said):
    with pytest.raises(BadInput, match=said):
        parse_cluster(text)


def test_without_ray_the_remedy_is_named(monkeypatch):
    real = builtins.__import__

    def without(name: str, *rest: object, **named: object) -> object:
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *rest, **named)

    for name in [one for one in sys.modules if one.startswith("evo.cluster.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match=r"needs Ray: pip install 'evo-search\[ray\]'"):
        open_runner("local", "sqlite:///x.db")


@pytest.mark.parametrize(
    ("nodes", "refused"),
    [([("here", True)], False), ([("here", True), ("here", True)], True), ([("elsewhere", True)], True)],
)
def test_a_file_is_no_database_of_several_machines(monkeypatch, nodes, refused):
    pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")
    from evo.cluster import runner as connection

    here = socket.gethostname()
    found = [{"NodeManagerHostname": here if host == "here" else host, "Alive": alive} for host, alive in nodes]
    monkeypatch.setattr(connection, "list_alive_nodes", lambda: found)
    place = parse_cluster("head:6379")
    connection.check_shared_database("postgresql+psycopg://evo@host/evo", place)
    if refused:
        with pytest.raises(BadInput, match="is a file of one machine.*use --db postgresql.*or --ray local"):
            connection.check_shared_database("sqlite:///runs.db", place)
    else:
        connection.check_shared_database("sqlite:///runs.db", place)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_where_nobody_listens_is_one_line_at_once(scheme):
    connection = pytest.importorskip("evo.cluster.runner", reason="ray is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        with pytest.raises(BadInput, match="no Ray cluster can be joined .*is its head running"):
            connection.connect(parse_cluster(f"{scheme}127.0.0.1:{taken.getsockname()[1]}"))
