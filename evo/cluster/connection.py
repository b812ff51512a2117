"""Finding a Ray cluster, and what can be wrong with it."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError

from evo.config.cluster import AUTO, LOCAL, ClusterAddress
from evo.errors import BadInput
from islands.db.engine import mask_url, parse_address
from problems.scoring import cores

STORE_BYTES = 100 << 20
"""Of shared memory for a Ray of our own: what goes between its processes is small."""

REACH_SECONDS = 10.0
HEAD_OR_TOKEN = "is its head running, and has this machine its token (~/.ray/auth_token, RAY_AUTH_MODE=token)?"
"""Ray says the same of both."""


def connect(place: ClusterAddress) -> bool:
    """Join the cluster, or start one in this process for `local`; whether it is ours to leave. Raises BadInput."""
    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if place.where == LOCAL:
        settings |= {"num_cpus": cores(), "include_dashboard": False, "object_store_memory": STORE_BYTES}
    _check_reachable(place.where)
    logging.getLogger("ray").setLevel(logging.ERROR)  # of its warnings none is for who searches
    try:
        ray.init(address=LOCAL if place.where == LOCAL else place.where, **settings)
    except (ConnectionError, RuntimeError, ValueError, RayError, OSError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        remedy = "start one with `ray start --head`" if place.where == AUTO else HEAD_OR_TOKEN
        raise BadInput(f"--ray {place.where}: no Ray cluster can be joined ({reason}); {remedy}") from None
    return True


def _check_reachable(where: str) -> None:
    """BadInput where nobody listens at HOST:PORT: Ray itself would try for minutes, deaf to Ctrl-C."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"--ray {where}: no Ray cluster can be joined ({error}); is its head running?") from None


def address_of(place: ClusterAddress) -> str:
    """The cluster that was joined, as another process on this machine names it."""
    return place.where if place.where.startswith("ray://") else str(ray.get_runtime_context().gcs_address)


def leave() -> None:
    ray.shutdown()


def check_database(db: str, place: ClusterAddress) -> None:
    """BadInput where other machines could not write to the database."""
    url = parse_address(db)
    if url.drivername != "sqlite":
        return
    hosts = {str(node["NodeManagerHostname"]) for node in alive_nodes()}
    if len(alive_nodes()) > 1 or hosts - {socket.gethostname()}:
        raise BadInput(
            f"{mask_url(url)} is a file of one machine, and the Ray cluster at {place} has {len(alive_nodes())} nodes; "
            "use --db postgresql+psycopg://..., or --ray local"
        )


def alive_nodes() -> list[Mapping[str, Any]]:
    """Ray's record of every node that it counts as alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def slots(place: ClusterAddress, beside: Mapping[str, float]) -> int:
    """How many tasks the cluster can run at once, at least one. beside: resources that engines hold"""
    return max(1, _fits(place, beside))


def check_room(place: ClusterAddress, beside: Mapping[str, float]) -> None:
    """BadInput where what was asked for beside a task leaves no room for one, which would wait for ever."""
    options, there = place.options, ray.cluster_resources().get("CPU", 0.0)
    if beside and not options.scorers and _fits(place, beside) < 1:
        raise BadInput(f"--ray {place}: its engines leave no room for a task among {there:g} CPUs; ask for fewer")
    if options.scorers and _fits(place, beside) < 1:
        raise BadInput(
            f"--ray {place}: {options.scorers} scoring processes of {options.scorer_cpus:g} CPUs leave no room for a "
            f"task among {there:g}; ask for fewer, or for ?scorer_cpus= less"
        )


def _fits(place: ClusterAddress, beside: Mapping[str, float]) -> int:
    """Tasks beside the scoring processes and the engines."""
    options, there = place.options, ray.cluster_resources()
    scoring = {"CPU": options.scorer_cpus, "GPU": options.scorer_gpus, **options.scorer_resources}
    asked = {"CPU": options.cpus, "GPU": options.gpus, **options.resources}
    taken = {name: options.scorers * scoring.get(name, 0.0) + beside.get(name, 0.0) for name in asked}
    free = {name: there.get(name, 0.0) - taken[name] for name in asked}
    fits = [int(free[name] / amount) for name, amount in asked.items() if amount > 0]
    return min(fits, default=len(alive_nodes()))


def describe_nodes() -> list[dict[str, Any]]:
    """The nodes for a display: name, whether alive, and what they have."""
    return [
        {
            "node": str(node["NodeID"])[:8],
            "host": str(node["NodeManagerHostname"]),
            "alive": bool(node["Alive"]),
            "cpus": node["Resources"].get("CPU", 0.0),
            "gpus": node["Resources"].get("GPU", 0.0),
        }
        for node in ray.nodes()
    ]


def import_path() -> list[str]:
    """Where this process imports from, without the entry that stands for its working directory."""
    return [entry for entry in sys.path if entry]


def take_on(folder: str, path: Sequence[str]) -> None:
    """Work in the driver's folder, where this machine has it, and import from its path before all else."""
    with contextlib.suppress(OSError):  # another machine need not have it
        os.chdir(folder)
    sys.path[:0] = [entry for entry in path if entry not in sys.path]
