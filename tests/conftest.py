"""What tests of several packages share: an empty PostgreSQL database on a server that the session starts, and one
thread for small models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from postgres import NoPostgres, PostgresServer  # noqa: E402


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server of this worker. Without one the tests fail: skipping would hide a broken half of the product."""
    try:
        server = PostgresServer.start()
    except NoPostgres as error:
        pytest.fail(str(error), pytrace=False)
    yield server
    server.stop()


@pytest.fixture
def postgres_address(postgres: PostgresServer) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with postgres.database() as address:
        yield address


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two threads of a small model wait for each other most of the time where other tests run beside them."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
