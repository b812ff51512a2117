"""`evo doctor --ray`: every node's lines, what is wrong with the whole, and where nodes differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from child_processes import begin

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'evo-search[ray]'")

from ray_clusters import Nodes  # noqa: E402

from evo.cluster.doctor import compare_versions  # noqa: E402


def test_versions_that_differ_are_findings():
    same = {"evo": "0.1.0", "Python": "3.11.7", "ray": "2.60.0", "torch": "2.13.0"}
    assert [line.level for line in compare_versions({"a": same, "b": same})] == ["ok"]
    other = {**same, "ray": "2.59.0", "torch": "2.12.0", "vllm": "0.32.0"}
    found = {line.message.partition(":")[0]: line for line in compare_versions({"a": same, "b": other, "c": same})}
    assert {name: line.level for name, line in found.items()} == {"ray": "fail", "torch": "warn", "vllm": "warn"}
    assert found["ray"].message == "ray: 2.59.0 on b; 2.60.0 on a, c" and found["ray"].remedy
    assert found["vllm"].message == "vllm: 0.32.0 on b; none on a, c"


@pytest.mark.long
def test_every_node_is_examined(cluster: Nodes, tmp_path: Path):
    arguments = ["doctor", "--ray", cluster.address, "--json", "--policy", "scripted:mutate"]
    child = begin(*arguments, cwd=tmp_path)
    out, err = child.communicate(timeout=300)
    checks = json.loads(out)["checks"]
    nodes = {one["node"] for one in checks} - {"cluster"}
    assert child.returncode == 1, err  # a file is no database of several nodes
    assert len(nodes) == 4  # the head is one
    for node in nodes:
        assert {"packages", "sandbox", "memory", "engine"} <= {one["check"] for one in checks if one["node"] == node}
    whole = {one["check"]: one for one in checks if one["node"] == "cluster"}
    assert whole["cluster"]["told"].startswith("4 nodes, 3 CPUs")
    assert whole["access"]["level"] == "warn" and "RAY_AUTH_MODE=token" in whole["access"]["remedy"]
    assert whole["database"]["level"] == "fail" and "is a file of one machine" in whole["database"]["told"]
    assert whole["versions"]["level"] == "ok"
