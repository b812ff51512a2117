"""The contract of a database of runs (islands.store.Store), on both databases."""

from __future__ import annotations

import hashlib

import pytest
from support.island_samples import BOTH, answer, fresh, group, search, small_config

from islands.browse import ancestors
from islands.errors import DatabaseUnavailable, RunExists, UnknownRun
from islands.population.population import Population
from islands.runs import course_of, read_archives, read_totals
from islands.store import Store
from islands.training import GroupChoice, training_steps

HOSTILE = "a\x00b\ud800\u202e\n'\";--"
pytestmark = BOTH


def make(store, name="run"):
    return store.create_run(name, {"iterations": 3}, command="evo run", seed=7, commit="abc")


def test_a_run_is_what_it_was_created_with(store, address, opened):
    run = make(store)
    assert (run.name, run.seed, run.commit, run.status) == ("run", 7, "abc", "running")
    assert run.config == {"iterations": 3} and run.summary == {} and run.comparison is None
    assert store.run("run") == run and store.runs() == [run]
    store.set_config(run.id, {"iterations": 9})
    store.finish_run(run.id, "done", "because", summary={"answers": 2})
    ended = opened(address, read_only=True).run("run")
    assert (ended.status, ended.reason, ended.summary) == ("done", "because", {"answers": 2})
    assert ended.config == {"iterations": 9} and ended.updated >= run.updated


def test_names_are_taken_once_and_made_up_where_none_is_given(store):
    make(store)
    with pytest.raises(RunExists, match="run"):
        make(store)
    assert make(store, None).name not in ("", "run")
    with pytest.raises(UnknownRun, match="did you mean run"):
        store.run("runn")
    with pytest.raises(UnknownRun):
        store.finish_run(10**6, "done")
    with pytest.raises(ValueError):
        store.finish_run(1, "asleep")


def test_problems_come_back_by_index(store):
    run = make(store)
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


def test_a_transaction_is_whole_or_nothing(store):
    run, calls = make(store), []
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


def test_training_steps_come_back_in_order(store):
    run = make(store)
    with store.begin() as tx:
        store.add_training_step(run.id, 0, {"loss": 0.5}, tx)
        store.add_training_step(run.id, 1, {"loss": 0.25}, tx, policy_version="v1", checkpoint="there")
    steps = [(step.step, step.stats, step.policy_version) for step in training_steps(store, run.id)]
    assert steps == [(0, {"loss": 0.5}, None), (1, {"loss": 0.25}, "v1")]
    assert [step.step for step in training_steps(store, run.id, after=0)] == [1]


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


def test_a_reader_writes_nothing_and_sees_what_is_committed(address, opened, tmp_path):
    with pytest.raises(DatabaseUnavailable, match="does not exist|holds no runs yet"):
        Store.open(address, read_only=True)
    assert list(tmp_path.iterdir()) == []
    store = opened(address)
    make(store, "first")
    reader = opened(address, read_only=True)
    with pytest.raises(DatabaseUnavailable):
        make(reader, "second")
    make(store, "third")
    assert [run.name for run in reader.runs()] == ["first", "third"]
