"""The watcher behind the screen: a thread that keeps a snapshot current."""

import time

import pytest

from evo.tui.watcher import Watcher
from islands.errors import DatabaseUnavailable
from islands.store import Store


@pytest.fixture
def db(tmp_path, search_with, digits, digits_policy):
    address = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits("a"), digits("b")], digits_policy(), address, iterations=5)
    return address


def wait_for(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("evo.tui.watcher.POLL_SECONDS", 0.02)


def test_the_watcher_keeps_up(db, quick):
    watcher = Watcher(db, "run")
    snapshots = []
    watcher.changed = lambda: snapshots.append(watcher.snapshot)
    watcher.start()
    try:
        with Store.open(db) as store:
            store.finish_run(store.run("run").id, "done")
        wait_for(lambda: watcher.snapshot.ended)
        watcher.look(1, "run")
        wait_for(lambda: (1, "run") in watcher.snapshot.details)
    finally:
        watcher.close()
    count = len(snapshots)
    time.sleep(0.1)
    assert len(snapshots) == count > 1


def test_a_database_that_comes_back_and_one_that_does_not(db, quick, monkeypatch):
    watcher = Watcher(db, "run", patience=0.5)
    poll = watcher._poller.poll

    def gone(now=None):
        raise DatabaseUnavailable("postgresql://h: the server closed the connection")

    monkeypatch.setattr(watcher._poller, "poll", gone)
    watcher.start()
    try:
        wait_for(lambda: "closed the connection" in watcher.snapshot.fault)
        monkeypatch.setattr(watcher._poller, "poll", poll)
        wait_for(lambda: not watcher.snapshot.fault)
        assert watcher.failure is None
        monkeypatch.setattr(watcher._poller, "poll", gone)
        wait_for(lambda: watcher.failure is not None)
        assert isinstance(watcher.failure, DatabaseUnavailable)
    finally:
        watcher.close()


def test_a_live_screen_outlasts_its_database(db, quick, monkeypatch):
    watcher = Watcher(db, "run")
    monkeypatch.setattr(watcher._poller, "poll", lambda: (_ for _ in ()).throw(DatabaseUnavailable("gone")))
    watcher.start()
    wait_for(lambda: watcher.snapshot.fault == "gone")
    assert watcher.failure is None
    watcher.close()
