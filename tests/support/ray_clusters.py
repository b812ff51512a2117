"""A Ray cluster of several nodes on this machine, for tests and for a bench of kills (commit c96219c2).

with ray_cluster(nodes=3) as cluster:      # cluster.address is what --ray takes
    cluster.kill_node()
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import services
from ray.cluster_utils import Cluster

STORE_BYTES = 80 << 20
PATIENT = {
    "health_check_initial_delay_ms": 60_000,
    "health_check_timeout_ms": 60_000,
    "health_check_period_ms": 1_000,
    "health_check_failure_threshold": 5,
}
"""A busy machine may take long to answer; one that is killed refuses at once."""
START_SECONDS = 90.0
STARTS = 5
"""A node may end while it starts where the machine is so busy that one of its own processes is late."""


def be_patient() -> None:
    """Ray gives a node 30 seconds to start, which a busy machine may take longer for."""
    original = services.get_node
    if getattr(original, "patient", False):
        return

    def get_node(*arguments: Any, **named: Any) -> Any:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                return original(*arguments, **named)
            except RuntimeError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    get_node.patient = True  # type: ignore[attr-defined]
    services.get_node = get_node


class Nodes:
    """The cluster. The head has no CPU, so that work lies on the others and each of them can be killed."""

    def __init__(self, nodes: int) -> None:
        be_patient()
        settings: dict[str, Any] = {"object_store_memory": STORE_BYTES, "include_dashboard": False}
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": PATIENT, **settings}
        )
        self._workers = [self._add() for _ in range(nodes)]

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def _add(self) -> Any:
        for attempt in range(STARTS):
            try:
                return self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
            except Exception:  # noqa: BLE001 - Ray raises a plain Exception where a node does not come up
                if attempt == STARTS - 1:
                    raise
        raise AssertionError("unreachable")

    def kill_node(self, number: int = 0) -> None:
        """End a node at once, as a lost machine."""
        self._cluster.remove_node(self._workers.pop(number), allow_graceful=False)

    def add_node(self) -> None:
        self._workers.append(self._add())

    def kill_head(self) -> None:
        self._cluster.remove_node(self._cluster.head_node, allow_graceful=False)

    def __len__(self) -> int:
        return len(self._workers)

    def close(self) -> None:
        if ray.is_initialized():
            ray.shutdown()
        self._cluster.shutdown()


@contextmanager
def ray_cluster(nodes: int = 3) -> Iterator[Nodes]:
    cluster = Nodes(nodes)
    try:
        yield cluster
    finally:
        cluster.close()
