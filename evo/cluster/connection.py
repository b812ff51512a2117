"""Find and join a Ray cluster, and check it."""

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
from islands.engine import mask_url, parse_url
from problems.scoring import cores

_STORE_BYTES = 100 << 20
"""Shared memory of a Ray that we start: its processes exchange little data."""

_REACH_SECONDS = 10.0
_HEAD_OR_TOKEN = (
    "is its head running, is this machine one of the cluster (`ray start --address`), and has it the cluster's token "
    "(~/.ray/auth_token, RAY_AUTH_MODE=token)?"
)
"""Ray's errors do not tell these cases apart."""


def connect(place: ClusterAddress) -> bool:
    """Join the cluster, or start one for `local`. Returns whether the caller must leave it. Raises BadInput."""
    if ray.is_initialized():
        return False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if place.where == LOCAL:
        settings |= {"num_cpus": cores(), "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    _check_reachable(place.where)
    logging.getLogger("ray").setLevel(logging.ERROR)  # its warnings are of no use to a search
    try:
        ray.init(address=LOCAL if place.where == LOCAL else place.where, **settings)
    except (ConnectionError, RuntimeError, ValueError, RayError, OSError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        remedy = "start one with `ray start --head`" if place.where == AUTO else _HEAD_OR_TOKEN
        raise BadInput(f"--ray {place.where}: no Ray cluster can be joined ({reason}); {remedy}") from None
    return True


def _check_reachable(where: str) -> None:
    """Raise BadInput if HOST:PORT refuses connections. Ray would retry for minutes and ignore Ctrl-C."""
    host, colon, port = where.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise BadInput(f"--ray {where}: no Ray cluster can be joined ({error}); is its head running?") from None


def check_shared_database(db: str, place: ClusterAddress) -> None:
    """Raise BadInput if other machines cannot write to the database."""
    url = parse_url(db)
    if url.drivername != "sqlite":
        return
    nodes = list_alive_nodes()
    hosts = {str(node["NodeManagerHostname"]) for node in nodes}
    if len(nodes) > 1 or hosts - {socket.gethostname()}:
        raise BadInput(
            f"{mask_url(url)} is a file of one machine, and the Ray cluster at {place} has {len(nodes)} nodes; "
            "use --db postgresql+psycopg://..., or --ray local"
        )


def list_alive_nodes() -> list[Mapping[str, Any]]:
    """Ray's records of the nodes that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def check_room_for_tasks(place: ClusterAddress) -> None:
    """Raise BadInput if scoring processes leave no resources for a task, which would wait for ever."""
    options, total = place.options, ray.cluster_resources()
    scoring = {"CPU": options.scorer_cpus, "GPU": options.scorer_gpus, **options.scorer_resources}
    needed = {"CPU": options.cpus, "GPU": options.gpus, **options.resources}
    free = {name: total.get(name, 0.0) - options.scorers * scoring.get(name, 0.0) for name in needed}
    if options.scorers and any(free[name] < amount for name, amount in needed.items() if amount > 0):
        raise BadInput(
            f"--ray {place}: {options.scorers} scoring processes of {options.scorer_cpus:g} CPUs leave no "
            f"resources for a task on {total.get('CPU', 0.0):g}; ask for fewer, or for less ?scorer_cpus="
        )


def list_import_path() -> list[str]:
    """The import path of this process, without the entry for its working directory."""
    return [entry for entry in sys.path if entry]


def adopt_paths(folder: str, path: Sequence[str]) -> None:
    """Change to the driver's folder, if this machine has it, and import from the driver's path first."""
    with contextlib.suppress(OSError):  # another machine need not have it
        os.chdir(folder)
    sys.path[:0] = [entry for entry in path if entry not in sys.path]
