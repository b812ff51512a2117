"""One database for each test, on SQLite and on a PostgreSQL server that the session starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres import PostgresServer

from islands.db.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'evo.db'}"
    return request.getfixturevalue("postgres_address")


@pytest.fixture
def another_address(address: str, tmp_path: Path, postgres: PostgresServer) -> Iterator[str]:
    """A second empty database of the same kind."""
    if address.startswith("sqlite"):
        yield f"sqlite:///{tmp_path / 'another.db'}"
        return
    with postgres.database() as another:
        yield another


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'other.db'}"


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Open stores that the test need not close."""
    stores: list[Store] = []

    def open_store(address: str, **options: bool) -> Store:
        stores.append(Store.open(address, **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def store(address: str, opened: Callable[..., Store]) -> Store:
    return opened(address)
