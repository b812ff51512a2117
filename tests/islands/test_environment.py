"""What the machine and the servers do to a database: locks, read-only disks, full disks, a server that restarts."""

import shutil
import sqlite3

import pytest
from sqlalchemy import text

from islands import engine
from islands.errors import DatabaseUnavailable
from islands.store import Store


def begin_run(store, name="run"):
    return store.create_run(name, {}, command="test", seed=0, commit="")


def test_a_writer_that_locks_the_file_is_waited_for_once_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 0.5)
    with Store.open(f"sqlite:///{tmp_path / 'evo.db'}") as store:
        other = sqlite3.connect(tmp_path / "evo.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="another program has been writing to it for 0.5 s"):
            begin_run(store)
        with pytest.raises(DatabaseUnavailable):  # what is said at the end
            begin_run(store)
        timeouts = [connection_timeout(store)]
        other.execute("COMMIT")
        other.close()
        begin_run(store)
        assert [*timeouts, connection_timeout(store)] == [1000, 500]
        assert [run.name for run in store.runs()] == ["run"]


def connection_timeout(store):
    """Milliseconds that the writer's connection waits for a lock."""
    with store._writer.raw_connection().driver_connection as connection:
        return connection.execute("PRAGMA busy_timeout").fetchone()[0]


def test_a_read_only_disk_can_be_read_and_is_named_by_what_writes(tmp_path, disk):
    with Store.open(f"sqlite:///{tmp_path / 'evo.db'}") as store:
        begin_run(store)
    folder = disk("4m")
    shutil.copy(tmp_path / "evo.db", folder)
    disk.read_only()
    address = f"sqlite:///{folder / 'evo.db'}"
    with Store.open(address, read_only=True) as store:
        assert [run.name for run in store.runs()] == ["run"]
    with pytest.raises(DatabaseUnavailable, match="mounted read-only"):
        Store.open(address, must_exist=True)
    with pytest.raises(DatabaseUnavailable, match="mounted read-only"):
        Store.open(f"sqlite:///{folder / 'new.db'}")


def test_a_full_disk_takes_nothing_and_loses_nothing(disk):
    folder = disk("1m")
    address = f"sqlite:///{folder / 'evo.db'}"
    with Store.open(address) as store:
        stored = 0
        with pytest.raises(DatabaseUnavailable, match="full"):
            while True:
                begin_run(store, f"run{stored}")
                stored += 1
    with Store.open(address, read_only=True) as store:
        assert len(store.runs()) == stored
    disk.grow("4m")
    with Store.open(address) as store:
        begin_run(store, "more")
        assert len(store.runs()) == stored + 1
        assert store.scalar(text("PRAGMA integrity_check")) == "ok"


def test_transactions_are_committed_whatever_level_the_server_prefers(postgres_address):
    with Store.open(postgres_address) as store, store.begin() as tx:
        name = tx.connection.execute(text("SELECT current_database()")).scalar_one()
        tx.connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
    try:
        with Store.open(postgres_address) as one, Store.open(postgres_address) as two:
            run = begin_run(one)
            with one.begin() as first:
                assert first.connection.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"
                with two.begin() as second:  # each reads what the other writes: a serializable server refuses one
                    for tx in (first, second):
                        tx.connection.execute(text("SELECT count(*) FROM problems"))
                    one.add_problem(run.id, 0, "a", "a", ("x",), None, "text", first)
                    two.add_problem(run.id, 1, "b", "b", ("x",), None, "text", second)
            assert [problem.name for problem in one.problems(run.id)] == ["a", "b"]
    finally:
        with Store.open(postgres_address) as store, store.begin() as tx:
            tx.connection.execute(text(f"ALTER DATABASE {name} RESET default_transaction_isolation"))


def test_connections_that_are_cut_are_one_line_and_the_store_goes_on(postgres_address):
    with Store.open(postgres_address) as store, Store.open(postgres_address) as other:
        run = begin_run(store, "before")
        with pytest.raises(DatabaseUnavailable, match="terminat|closed the connection") as raised, store.begin() as tx:
            store.add_problem(run.id, 0, "half", "half", ("x",), None, "text", tx)
            pid = tx.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            other.scalar(text(f"SELECT pg_terminate_backend({pid}, 10000)"))
            store.add_problem(run.id, 1, "half", "half", ("x",), None, "text", tx)
        assert "\n" not in str(raised.value)
        begin_run(store, "after")
        assert store.problems(run.id) == [] and [run.name for run in store.runs()] == ["before", "after"]
