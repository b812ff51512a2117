"""A database of runs (islands.store.Store): its contract on both databases; locks, first openings, and what the machine
and the servers do to a database: read-only disks, full disks, a server that restarts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sqlalchemy import create_engine, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from support.island_samples import BOTH, answer, fresh, group, put, search, small_config

from islands import engine, groups
from islands.blobs import compress, decompress, fold, ids_of, ids_to_bytes, pack_floats, unfold, unpack_floats
from islands.browse import ancestors
from islands.engine import check_writable
from islands.errors import DatabaseMoved, DatabaseUnavailable, NoRuns, RunBusy, RunExists, UnknownRun
from islands.lock import LOST
from islands.population.population import Population
from islands.runs import course_of, read_archives, read_totals
from islands.schema import Candidates, PromptGroups, Runs
from islands.store import Store, new_run
from islands.training import GroupChoice, training_steps

HOSTILE = "a\x00b\ud800\u202e\n'\";--"


def make_run(store, name="first", **more):
    return store.create_run(name, {"iterations": 3}, command="evo run", seed=2**40, commit="abc", **more)


@BOTH
def test_a_run_is_what_it_was_created_with(store, address, opened):
    run = make_run(store)
    assert (run.name, run.seed, run.commit, run.status) == ("first", 2**40, "abc", "running")
    assert run.config == {"iterations": 3} and run.summary == {} and run.comparison is None
    assert store.run("first") == run and store.runs() == [run]
    store.set_config(run.id, {"iterations": 9})
    store.finish_run(run.id, "done", "because", summary={"answers": 2})
    ended = opened(address, read_only=True).run("first")
    assert (ended.status, ended.reason, ended.summary) == ("done", "because", {"answers": 2})
    assert ended.config == {"iterations": 9} and ended.updated >= run.updated


@BOTH
def test_names_are_taken_once_and_made_up_where_none_is_given(store):
    make_run(store)
    with pytest.raises(RunExists, match="first"):
        make_run(store)
    assert make_run(store, None).name not in ("", "first")
    with pytest.raises(UnknownRun, match="did you mean first"):
        store.run("firts")
    with pytest.raises(UnknownRun):
        store.finish_run(10**6, "done")
    with pytest.raises(ValueError):
        store.finish_run(1, "asleep")


@BOTH
def test_problems_come_back_by_index(store):
    run = make_run(store)
    with store.begin() as tx:
        for index in (1, 0):
            store.add_problem(run.id, index, f"set/{index}", HOSTILE, ("a", "b"), None, "text", tx)
    first, second = store.problems(run.id)
    assert (first.index, second.index, first.name, first.objectives) == (0, 1, HOSTILE, ("a", "b"))
    assert first.target is None and first.status == "active" and first.best is None
    store.set_problem_status(first.id, "solved", solved_sequence=4)
    store.set_problem_status(first.id, "done", "over")
    assert [(p.status, p.message, p.solved_sequence) for p in store.problems(run.id)][0] == ("done", "over", 4)
    with pytest.raises(ValueError):
        store.set_problem_status(first.id, "asleep")


@BOTH
def test_a_transaction_is_whole_or_nothing(store):
    run, calls = make_run(store), []
    with pytest.raises(ZeroDivisionError), store.begin() as tx:
        tx.on_end.append(calls.append)
        store.add_problem(run.id, 0, "a", "a", ("x",), None, "text", tx)
        store.policy_version(run.id, "v1", tx)
        raise ZeroDivisionError
    assert store.problems(run.id) == [] and calls == [False]
    with store.begin() as tx:
        tx.on_end.append(calls.append)
        store.add_problem(run.id, 0, "a", "a", ("x",), None, "text", tx)
        assert store.policy_version(run.id, "v1", tx) == store.policy_version(run.id, "v1", tx)
        assert store.policy_version(run.id, "v2", tx) != store.policy_version(run.id, "v1", tx)
    assert len(store.problems(run.id)) == 1 and calls == [False, True]


@BOTH
def test_training_steps_come_back_in_order(store):
    run = make_run(store)
    with store.begin() as tx:
        store.add_training_step(run.id, 0, {"loss": 0.5}, tx)
        store.add_training_step(run.id, 1, {"loss": 0.25}, tx, policy_version="v1", checkpoint="there")
    steps = [(step.step, step.stats, step.policy_version) for step in training_steps(store, run.id)]
    assert steps == [(0, {"loss": 0.5}, None), (1, {"loss": 0.25}, "v1")]
    assert [step.step for step in training_steps(store, run.id, after=0)] == [1]


@BOTH
def test_a_search_is_chosen_stored_and_read_alike(store):
    """One digest for every database."""
    problem, population = fresh(store)
    with pytest.raises(ZeroDivisionError), store.begin() as tx:  # leaves a gap in PostgreSQL's numbers
        population.add(group(problem, 0, [answer("gone"), answer("away")]), tx)
        raise ZeroDivisionError
    population = Population(store, problem, small_config())
    with store.begin() as tx:
        population.seed(answer("start", 0.1), tx)
    chosen = search(store, population, 60, seed=3)
    born = {id: n for n, id in enumerate(population._archipelago.columns.ids)}
    archives: dict[int, dict[tuple[int, str], int]] = {problem.id: {}}
    with store.read() as connection:
        totals = vars(read_totals(connection, [problem.run_id])[problem.run_id])
        read_archives(connection, archives)
    rises = course_of(store, problem.run_id).improvements[problem.id]
    found = [
        [(born.get(parent), [born[i] for i in some], [born[i] for i in top]) for parent, some, top in chosen],
        [[born[i] for i in population.members(island)] for island in range(3)],
        sorted((place, born[id]) for place, id in archives[problem.id].items()),
        sorted((key, round(value, 6)) for key, value in totals.items() if key != "errors"),
        totals["errors"],
        [(rise.sequence, rise.fitness, born[rise.candidate]) for rise in rises],
        [(born[one.id], one.generation) for one in ancestors(store, population.best[0])],
        [(row.sequence, row.version, row.answers) for row in GroupChoice(problem.run_id, 100).rows(store)],
    ]
    assert hashlib.sha256(repr(found).encode()).hexdigest()[:16] == "58327503f1c40c89"


@BOTH
def test_a_reader_writes_nothing_and_sees_what_is_committed(address, opened, tmp_path):
    with pytest.raises(DatabaseUnavailable, match="does not exist|holds no runs yet"):
        Store.open(address, read_only=True)
    assert list(tmp_path.iterdir()) == []
    store = opened(address)
    make_run(store)
    reader = opened(address, read_only=True)
    with pytest.raises(DatabaseUnavailable):
        make_run(reader, "second")
    make_run(store, "third")
    assert [run.name for run in reader.runs()] == ["first", "third"]


# -- transactions and reading


def test_a_transaction_is_not_nested(store):
    with store.begin(), pytest.raises(RuntimeError, match="open in this thread already"):
        make_run(store)


def test_threads_take_turns(store):
    make_run(store)
    inside, overlaps = [], []

    def write(number):
        for i in range(10):
            with store.begin() as tx:
                overlaps.append(list(inside))
                inside.append(number)
                tx.connection.execute(insert(Runs), new_run(f"{number} {i}", "done", {}, "", 1, "", None, None))
                inside.remove(number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert len(store.runs()) == 41 and not any(overlaps)


@BOTH
def test_the_queries_of_a_block_see_one_moment(store, address, opened):
    """Also those of a `read` within it, and those of another thread see what is committed now."""
    make_run(store)
    with store.read(), ThreadPoolExecutor(1) as thread:
        assert [run.name for run in store.runs()] == ["first"]
        make_run(opened(address), "second")
        with store.read() as inner:
            assert inner.execute(select(func.count()).select_from(Runs)).scalar() == 1
        assert [run.name for run in store.runs()] == ["first"]
        assert [run.name for run in thread.submit(store.runs).result()] == ["first", "second"]
    assert [run.name for run in store.runs()] == ["first", "second"]
    with store.read() as connection:  # a cursor of the server
        numbers = connection.execute(select(Runs.c.id).execution_options(yield_per=1))
        assert len(list(numbers)) == 2
    with pytest.raises((DBAPIError, DatabaseUnavailable)), store.read() as connection:
        connection.execute(text("no statement"))
    assert len(store.runs()) == 2


@BOTH
def test_a_run_that_ends_while_a_page_is_read_is_not_lost(store, address, opened):
    """Its row is of the page's moment, its lock is of now."""
    run, reader = make_run(store), opened(address, read_only=True)
    lease = store.lease(run.id)
    with reader.read():
        assert reader.run("first").status == "running"
        store.finish_run(run.id, "done")
        lease.release()
        assert reader.run("first").status == "running"
    assert reader.run("first").status == "done"


@BOTH
def test_candidates_are_read_page_by_page(store, address, monkeypatch):
    monkeypatch.setattr(groups, "_BATCH", 7)
    problem, population = fresh(store)
    search(store, population, 20)
    first, second = population.members(0)[:2]
    put(store, population, group(problem, 99, [answer("new")], parent=first, inspirations=(first, second)))
    reader = groups.children(store, problem.id)
    found = [next(reader)]
    make_run(store, "other")
    assert [run.name for run in store.runs()][-1] == "other"  # no older moment is held between two of them
    found += reader
    stored = [id for (id,) in store.rows(select(Candidates.c.id).order_by(Candidates.c.sequence, Candidates.c.id))]
    assert [child.id for child in found] == stored and len(stored) > 30
    assert (found[-1].parent, found[-1].inspirations) == (first, (second,))
    assert [c.id for c in groups.children(store, problem.id, upto=9)] == [c.id for c in found if c.sequence <= 9]


# -- locks


def set_owner(store, run, owner):
    with store.begin() as tx:
        tx.connection.execute(update(Runs).where(Runs.c.id == run.id).values(owner=owner))


@BOTH
def test_a_live_writer_keeps_its_run(store, address, opened):
    run = make_run(store)
    lease = store.lease(run.id)
    with pytest.raises(RunBusy):
        store.lease(run.id)
    here = f"^run first is being written by process {os.getpid()} on this machine: let it end, or stop it by kill"
    with pytest.raises(RunBusy, match=here):
        opened(address).lease(run.id)
    assert store.run("first").status == "running" and not store.lost_runs({run.id: "someone"})
    lease.release()
    lease.release()
    with opened(address).lease(run.id), pytest.raises(RunBusy):
        store.lease(run.id)
    store.lease(run.id)
    other = make_run(store, "other")
    opened(address).lease(other.id)  # a lock is of one run
    with pytest.raises(UnknownRun):
        store.lease(10**6)
    store.close()
    with Store.open(address) as again:
        again.lease(run.id)


@BOTH
def test_a_killed_writer_leaves_its_run_free_and_interrupted(store, address):
    run = make_run(store)
    code = (
        "import os, signal, sys; from islands.store import Store; "
        "Store.open(sys.argv[1]).lease(int(sys.argv[2])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, address, str(run.id)], cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    assert (store.run("first").status, store.run("first").reason) == ("interrupted", LOST)
    with store.lease(run.id):
        assert store.run("first").status == "running"


@BOTH
def test_who_was_replaced_cannot_write(store, address, opened):
    problem, population = fresh(store, "first")
    store.lease(problem.run_id)
    put(store, population, group(problem, 0, [answer("x")]))
    elsewhere = json.dumps({"host": "elsewhere", "pid": 1, "token": "t"})
    for owner, said in [
        (elsewhere, "run first was taken over by process 1 on elsewhere"),
        (None, "another process, which"),
    ]:
        set_owner(opened(address), store.run("first"), owner)
        with pytest.raises(RunBusy, match=said):
            put(store, population, group(problem, 1, [answer("y")]))
    with store.reader.connect() as connection:
        assert connection.execute(select(PromptGroups.c.sequence)).scalars().all() == [0]


@BOTH
def test_a_run_can_be_taken_from_a_writer_that_is_known_to_be_lost(store, address, opened):
    run = make_run(store)
    store.lease(run.id)
    opened(address).lease(run.id, take_over=True)
    with pytest.raises((RunBusy, DatabaseUnavailable)):
        store.set_config(run.id, {})


# -- opening


@BOTH
def test_several_may_open_a_new_database_at_once(address):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: Store.open(address).close(), range(4)))
    with Store.open(address, read_only=True) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("nonsense", "not a database address"),
        ("mysql://u:hidden@h/d", "mysql: not a database"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:////no/such/folder/evo.db", "the folder /no/such/folder does not exist"),
        ("sqlite:////tmp", "is a folder"),
        ("postgresql+psycopg://u:hidden@127.0.0.1:1/d", "(?i)refused"),
        ("postgres://u:hidden@127.0.0.1:1/d?connect_timeout=3", "(?i)refused"),
        ("postgresql+psycopg://u:hidden@127.0.0.1:port/d", "not a database address"),
    ],
)
def test_a_wrong_address_gives_one_line_without_the_password(wrong, said):
    with pytest.raises(DatabaseUnavailable, match=said) as caught:
        Store.open(wrong)
    assert "\n" not in str(caught.value) and "hidden" not in str(caught.value)


def test_a_path_is_a_sqlite_database_if_it_exists_or_ends_as_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("evo.db", str(tmp_path / "runs 50%.sqlite3")):
        with Store.open(address) as store:
            store.create_run("x", {}, command="", seed=0, commit="")
        assert Path(address).is_file()
    Path("evo.db").rename("kept")
    with Store.open("kept", read_only=True) as store:
        assert [run.name for run in store.runs()] == ["x"]
    with pytest.raises(NoRuns, match="new.db: the file does not exist"):
        Store.open("new.db", must_exist=True)


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("not a database, " * 100)
    before = file.read_bytes()
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        Store.open(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_password_is_hidden_in_the_store_as_well(postgres_address, opened):
    address = postgres_address.replace("evo@", "evo:hidden@")
    store = opened(address)
    assert "hidden" not in store.address and create_engine(store.url).url.password == "hidden"
    with pytest.raises(UnknownRun) as caught:
        store.run("x")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("what", ["moved", "deleted", "replaced"])
def test_a_file_that_is_moved_or_deleted_takes_nothing_more(address, opened, tmp_path, what):
    store = opened(address)
    problem, population = fresh(store, "first")
    put(store, population, group(problem, 0, [answer("x")]))
    file = Path(address.removeprefix("sqlite:///"))
    other = tmp_path / "moved.db"
    file.unlink() if what == "deleted" else file.rename(other)
    if what == "replaced":
        Store.open(address).close()
    with pytest.raises(DatabaseMoved, match="was moved, replaced or deleted") as caught:
        put(store, population, group(problem, 1, [answer("y")]))
    assert "\n" not in str(caught.value)
    with pytest.raises(DatabaseUnavailable):
        store.finish_run(problem.run_id, "done")
    assert file.exists() == (what == "replaced")
    if what == "moved":
        other.rename(file)
        with Store.open(address) as again:
            assert again.scalar(select(PromptGroups.c.sequence)) == 0


def test_what_cannot_be_written_is_found_before_a_run(tmp_path, postgres_address):
    assert check_writable(postgres_address) and not check_writable(f"sqlite:///{tmp_path}/new.db")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DatabaseUnavailable, match="does not exist"):
        check_writable(f"sqlite:///{tmp_path}/no/evo.db")
    with pytest.raises(DatabaseUnavailable, match="(?i)refused"):
        check_writable("postgresql+psycopg://u:hidden@127.0.0.1:1/d")


# -- the machine and the servers


def test_a_writer_that_locks_the_file_is_waited_for_once_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_BUSY_SECONDS", 0.5)
    with Store.open(f"sqlite:///{tmp_path / 'evo.db'}") as store:
        other = sqlite3.connect(tmp_path / "evo.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseUnavailable, match="another program has been writing to it for 0.5 s"):
            make_run(store, "run")
        with pytest.raises(DatabaseUnavailable):  # what is said at the end
            make_run(store, "run")
        timeouts = [connection_timeout(store)]
        other.execute("COMMIT")
        other.close()
        make_run(store, "run")
        assert [*timeouts, connection_timeout(store)] == [1000, 500]
        assert [run.name for run in store.runs()] == ["run"]


def connection_timeout(store):
    """Milliseconds that the writer's connection waits for a lock."""
    with store._writer.raw_connection().driver_connection as connection:
        return connection.execute("PRAGMA busy_timeout").fetchone()[0]


def test_a_read_only_disk_can_be_read_and_is_named_by_what_writes(tmp_path, disk):
    with Store.open(f"sqlite:///{tmp_path / 'evo.db'}") as store:
        make_run(store, "run")
    folder = disk("4m")
    shutil.copy(tmp_path / "evo.db", folder)
    disk.change("ro")
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
                make_run(store, f"run{stored}")
                stored += 1
    with Store.open(address, read_only=True) as store:
        assert len(store.runs()) == stored
    disk.change("size=4m")
    with Store.open(address) as store:
        make_run(store, "more")
        assert len(store.runs()) == stored + 1
        assert store.scalar(text("PRAGMA integrity_check")) == "ok"


def test_transactions_are_committed_whatever_level_the_server_prefers(postgres_address):
    with Store.open(postgres_address) as store, store.begin() as tx:
        name = tx.connection.execute(text("SELECT current_database()")).scalar_one()
        tx.connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"))
    try:
        with Store.open(postgres_address) as one, Store.open(postgres_address) as two:
            run = make_run(one, "run")
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
        run = make_run(store, "before")
        with pytest.raises(DatabaseUnavailable, match="terminat|closed the connection") as raised, store.begin() as tx:
            store.add_problem(run.id, 0, "half", "half", ("x",), None, "text", tx)
            pid = tx.connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            other.scalar(text(f"SELECT pg_terminate_backend({pid}, 10000)"))
            store.add_problem(run.id, 1, "half", "half", ("x",), None, "text", tx)
        assert "\n" not in str(raised.value)
        make_run(store, "after")
        assert store.problems(run.id) == [] and [run.name for run in store.runs()] == ["before", "after"]


# -- packed arrays


@settings(deadline=None)
@given(arrays.arrays(np.int32, st.integers(0, 50)))
def test_ids_come_back(ids):
    found = ids_of(decompress(compress(ids_to_bytes(ids))))
    assert found.dtype == np.int32 and np.array_equal(found, ids)


@settings(deadline=None)
@given(arrays.arrays(np.float32, st.integers(0, 50), elements=st.floats(width=32)))
def test_floats_come_back_bit_by_bit(values):
    found = unpack_floats(pack_floats(values))
    assert found.dtype == np.float32
    same = (found.view(np.uint32) == values.view(np.uint32)) | (np.isnan(found) & np.isnan(values))
    assert same.all()


@settings(deadline=None, max_examples=50)
@given(st.binary(), st.binary(), st.integers(0, 50_000))
def test_what_a_base_holds_is_stored_once(own, other, length):
    shared = np.random.default_rng(0).bytes(length)
    data, base = shared + own, other + shared
    packed = compress(data, base)
    assert decompress(packed, base) == data and decompress(compress(data)) == data
    assert length > 20_000 or len(packed) < len(own) + length / 50 + 100


_MARKS = st.text("a:@0,\ue001", max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(_MARKS, st.text("ab", min_size=60, max_size=80), st.booleans()), max_size=4), _MARKS)
def test_a_text_comes_back_without_and_with_its_answers(parts, end):
    answers = [answer for _, answer, _ in parts]
    new = {place: answers[place] for place, (_, _, is_new) in enumerate(parts) if is_new}
    text = "".join(before + answer for before, answer, _ in parts) + end
    folded = fold(text, new)
    assert unfold(folded, answers) == text
    assert len(folded) <= len(text) + 2 - sum(len(answer) - 8 for answer in new.values() if len(answer) >= 64)


@pytest.mark.parametrize("blob", [b"x12", b"i123"])
def test_other_bytes_are_refused(blob):
    with pytest.raises(ValueError, match="no packed data"):
        unpack_floats(blob)


def test_ids_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="do not fit 32 bits"):
        ids_to_bytes([1 << 31])
