"""What is refused before a cluster is asked."""

from __future__ import annotations

import builtins
import re
import socket
import sys

import pytest

from evo.cli.options import ray_option
from evo.cluster import open_runner
from evo.config.compare import ClusterOptions, parse_cluster
from evo.errors import BadInput


def test_an_address_and_its_options():
    place = parse_cluster("head:6379?cpus=2&gpus=0.5&resources=fpga:1,disk:2.5")
    assert place.where == "head:6379" and str(place) == "head:6379"
    options = place.options
    assert (options.cpus, options.gpus) == (2, 0.5)
    assert options.resources == {"fpga": 1.0, "disk": 2.5}
    assert parse_cluster("local").options.cpus == 1


def test_the_help_names_the_options_that_there_are():
    (option,) = ray_option(lambda: None).__click_params__
    assert set(re.findall(r"[?](\w+)=", option.help)) == set(ClusterOptions.model_fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nearby", "expected local, auto, or HOST:PORT"),
        ("auto?speed=3", "speed"),
        ("local?cpus=-1", "cpus"),
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
