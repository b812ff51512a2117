"""`evo doctor --ray`: examine every node of a cluster by a task on it, and compare the nodes' versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from evo.cluster.connection import adopt_paths, check_database, connect, leave, list_alive_nodes, list_import_path
from evo.config.cluster import LOCAL, ClusterAddress
from evo.doctor.doctor import examine
from evo.doctor.line import DoctorLine, fail, ok, warn
from evo.doctor.packages import version_of
from evo.errors import BadInput
from evo.version import __version__

NODE_SECONDS = 300.0
"""For the checks of all nodes, which load torch and the policies of --policy."""
_PACKAGES = ("ray", "torch", "transformers", "vllm", "numpy")
_MUST_AGREE = ("evo", "Python", "ray")
_AUTH = "ray get-auth-token --generate on the head, RAY_AUTH_MODE=token and that token on every machine"


def examine_cluster(
    place: ClusterAddress, db: str, policies: Sequence[str], folder: Path
) -> Iterator[tuple[str, DoctorLine]]:
    """(node, line) for the cluster, for each node, and for the comparison of the nodes. The name of a node is the
    beginning of its id and its host. Raises BadInput if the cluster cannot be joined."""
    must_leave = connect(place)
    try:
        nodes = list_alive_nodes()
        yield "cluster", _describe_cluster(nodes)
        if place.where != LOCAL:
            yield "cluster", _check_authentication()
        try:
            check_database(db, place)
        except BadInput as error:
            yield "cluster", fail("database", str(error), "name a server, or use --ray local")
        path = list_import_path()
        refs = {}
        for node in nodes:
            here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(_examine_node).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
            refs[f"{node['NodeID'][:8]} {node['NodeManagerHostname']}"] = task.remote(path, db, policies, str(folder))
        ray.wait(list(refs.values()), num_returns=len(refs), timeout=NODE_SECONDS)
        versions: dict[str, Mapping[str, str]] = {}
        for name, ref in refs.items():
            try:
                versions[name], lines = ray.get(ref, timeout=1.0)
            except (GetTimeoutError, RayError) as error:
                reason = " ".join(str(error).split())[:160] or "no answer"
                lines = [fail("node", f"its checks did not end: {reason}", "look at that machine and at Ray's logs")]
            for line in lines:
                yield name, line
        for line in compare_versions(versions):
            yield "cluster", line
    finally:
        if must_leave:
            leave()


def compare_versions(versions: Mapping[str, Mapping[str, str]]) -> list[DoctorLine]:
    """A line for each package whose version differs between nodes, or one line if none does.

    versions: by node, then by package
    """
    lines = []
    for package in dict.fromkeys(name for installed in versions.values() for name in installed):
        nodes: dict[str, list[str]] = {}
        for node, installed in versions.items():
            nodes.setdefault(installed.get(package, "none"), []).append(node)
        if len(nodes) > 1:
            differing = "; ".join(f"{version} on {', '.join(where)}" for version, where in sorted(nodes.items()))
            level = fail if package in _MUST_AGREE else warn
            lines.append(level("versions", f"{package}: {differing}", f"install one {package} on every node"))
    return lines or [ok("versions", f"the same on {len(versions)} nodes")]


def _examine_node(
    path: Sequence[str], db: str, policies: Sequence[str], folder: str
) -> tuple[dict[str, str], list[DoctorLine]]:
    """Examine the node that this runs on: its versions and its lines."""
    adopt_paths(folder, path)
    lines = list(examine(db, policies, Path.cwd()))
    versions = {"evo": __version__, "Python": platform.python_version()}
    return versions | {name: version for name in _PACKAGES if (version := version_of(name)) is not None}, lines


def _describe_cluster(nodes: Sequence[Mapping[str, Any]]) -> DoctorLine:
    total = ray.cluster_resources()
    summary = f"{len(nodes)} nodes, {total.get('CPU', 0):g} CPUs, {total.get('GPU', 0):g} GPUs"
    return (
        ok("cluster", summary) if total.get("CPU", 0) else warn("cluster", summary, "join nodes: ray start --address")
    )


def _check_authentication() -> DoctorLine:
    if os.environ.get("RAY_AUTH_MODE", "").lower() in ("token", "k8s"):
        return ok("access", "by token")
    return warn("access", "anyone who reaches the cluster's ports can run code on it", _AUTH)
