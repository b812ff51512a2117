"""One Ray cluster of three nodes for all tests of this folder, which take seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NODES = 3
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[Any]:
    from support.ray_clusters import ray_cluster

    with pytest.MonkeyPatch.context() as patch:
        _for_nodes(patch)
        with ray_cluster(NODES) as nodes:
            yield nodes


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, session_cluster: Any) -> Iterator[Any]:
    """Three nodes of one CPU and a head without any; what a test kills is replaced after it."""
    _for_nodes(monkeypatch)
    yield session_cluster
    while len(session_cluster) < NODES:
        session_cluster.add_node()


def _for_nodes(patch: pytest.MonkeyPatch) -> None:
    """What nodes that start now have in their environment."""
    patch.setenv("PYTHONPATH", str(ROOT))
    patch.setenv("OMP_NUM_THREADS", "1")  # as Ray has it for a task of one CPU
    patch.setenv("RAY_AUTH_MODE", "disabled")
