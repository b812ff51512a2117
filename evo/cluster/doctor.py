"""`evo doctor --ray`: every node of a cluster examined by a task of its own, and whether the nodes agree."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from evo.cluster.connection import alive_nodes, check_database, connect, import_path, leave, take_on
from evo.config.cluster import LOCAL, ClusterAddress
from evo.doctor.doctor import examine
from evo.doctor.line import DoctorLine, fail, ok, warn
from evo.doctor.packages import version_of
from evo.errors import BadInput
from evo.version import __version__

NODE_SECONDS = 300.0
"""For the checks of all nodes, which load torch and what --policy names."""
_PACKAGES = ("ray", "torch", "transformers", "vllm", "numpy")
_MUST_AGREE = ("evo", "Python", "ray")
_AUTH = "ray get-auth-token --generate on the head, RAY_AUTH_MODE=token and that token on every machine"


def examine_cluster(
    place: ClusterAddress, db: str, policies: Sequence[str], folder: Path
) -> Iterator[tuple[str, DoctorLine]]:
    """(node, line): the whole cluster's, each node's, which is named by its id's beginning and its host, and what comes
    of both. Raises BadInput where it cannot be joined."""
    ours = connect(place)
    try:
        nodes = alive_nodes()
        yield "cluster", _describe(nodes)
        if place.where != LOCAL:
            yield "cluster", _authentication()
        try:
            check_database(db, place)
        except BadInput as error:
            yield "cluster", fail("database", str(error), "name a server, or use --ray local")
        path = import_path()
        asked = {}
        for node in nodes:
            here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(_examine_node).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
            asked[f"{node['NodeID'][:8]} {node['NodeManagerHostname']}"] = task.remote(path, db, policies, str(folder))
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=NODE_SECONDS)
        versions: dict[str, Mapping[str, str]] = {}
        for name, ref in asked.items():
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
        if ours:
            leave()


def compare_versions(versions: Mapping[str, Mapping[str, str]]) -> list[DoctorLine]:
    """A line for every package in which nodes differ; one line where none do. versions: by node, then by package"""
    lines = []
    for package in dict.fromkeys(name for found in versions.values() for name in found):
        nodes: dict[str, list[str]] = {}
        for node, found in versions.items():
            nodes.setdefault(found.get(package, "none"), []).append(node)
        if len(nodes) > 1:
            told = "; ".join(f"{version} on {', '.join(where)}" for version, where in sorted(nodes.items()))
            level = fail if package in _MUST_AGREE else warn
            lines.append(level("versions", f"{package}: {told}", f"install one {package} on every node"))
    return lines or [ok("versions", f"the same on {len(versions)} nodes")]


def _examine_node(
    path: Sequence[str], db: str, policies: Sequence[str], folder: str
) -> tuple[dict[str, str], list[DoctorLine]]:
    """On the node: its versions and its lines."""
    take_on(folder, path)
    lines = list(examine(db, policies, Path.cwd()))
    versions = {"evo": __version__, "Python": platform.python_version()}
    return versions | {name: found for name in _PACKAGES if (found := version_of(name)) is not None}, lines


def _describe(nodes: Sequence[Mapping[str, Any]]) -> DoctorLine:
    there = ray.cluster_resources()
    told = f"{len(nodes)} nodes, {there.get('CPU', 0):g} CPUs, {there.get('GPU', 0):g} GPUs"
    return ok("cluster", told) if there.get("CPU", 0) else warn("cluster", told, "join nodes: ray start --address")


def _authentication() -> DoctorLine:
    if os.environ.get("RAY_AUTH_MODE", "").lower() in ("token", "k8s"):
        return ok("access", "by token")
    return warn("access", "whoever reaches the cluster's ports can run anything on it", _AUTH)
