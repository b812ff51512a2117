"""A server of the pages in a thread."""

import threading
from contextlib import contextmanager

import pytest

from evo.ui.pages import RunPages
from evo.ui.server import PageServer


@contextmanager
def _serve(address, **settings):
    with PageServer(RunPages(address), 0, **settings) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def serve():
    """serve(address, ...) -> a context with the server of this database."""
    return _serve


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Every request reads the database."""
    monkeypatch.setattr("evo.ui.pages._FRESH_SECONDS", 0.0)
    monkeypatch.setattr("evo.ui.pages._COST_SHARE", 1e9)
