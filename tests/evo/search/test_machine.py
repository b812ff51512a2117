"""A run keeps what it was searched on, once for each machine that searched it."""

from __future__ import annotations

import json

from evo.provenance import describe_machine, source_commit
from evo.search.status import SearchStatus
from islands.store import Store
from islands.types import Totals


def test_the_machine_is_described_without_naming_anyone():
    found = describe_machine()
    assert json.loads(json.dumps(found)) == found
    assert found["cores"] >= 1 and found["cpu"] and found["memory_gib"] > 0.1
    assert found["commit"] == source_commit() and set(found["versions"]) >= {"evo", "python", "numpy"}
    assert not {"host", "node", "user"} & set(found)


def test_a_run_keeps_it_from_its_first_group_on(search_with, digits, digits_policy, tmp_path):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    search_with([digits()], digits_policy(), address, iterations=2)
    with Store.open(address, read_only=True) as store:
        assert store.run("run").summary["machines"] == [describe_machine()]


def test_a_resumed_run_keeps_both_machines_and_each_once():
    other, here = {"cpu": "other", "cores": 64}, {"cpu": "this", "cores": 2}
    status = SearchStatus(run="run", policy="policy", problem_runs=[], machines=[here])
    status.carry({"machines": [other, here]}, Totals())
    assert status.metrics()["machines"] == [other, here]
    status.carry({}, Totals())
    assert status.metrics()["machines"] == [other, here]
