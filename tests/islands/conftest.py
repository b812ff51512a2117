"""A database for each test: a SQLite file, and a PostgreSQL one where the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from islands.store import Store


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database: PostgreSQL's where a test says so."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path / 'evo.db'}"
    return request.getfixturevalue("postgres_address")


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
