"""Comparisons and names: planned, deleted and renamed whole or not at all, never while a run is being written."""

import pytest
from sqlalchemy import func, inspect, select
from support.island_samples import new_problem, search, small_config

from islands.comparisons import (
    PlannedRun,
    check_free,
    delete_runs,
    plan,
    rename_runs,
    run_name,
    runs_named,
)
from islands.errors import BadName, RunBusy, RunExists, UnknownRun
from islands.names import check_name, readable_name
from islands.population.population import Population
from islands.schema import METADATA


def searched(store, name):
    """A run with every kind of row that a search writes, and a step of training."""
    problem = new_problem(store, name)
    population = Population(store, problem, small_config())
    search(store, population, 30)
    run = store.run(name)
    with store.begin() as tx:
        store.add_training_step(run.id, 1, {"loss": 1.0}, tx, policy_version="v9", checkpoint="somewhere")
    return run


def counts(store):
    with store.read() as connection:
        tables = METADATA.sorted_tables
        return {one.name: connection.execute(select(func.count()).select_from(one)).scalar_one() for one in tables}


def test_a_run_goes_with_all_it_holds_and_others_stay(store):
    kept = searched(store, "kept")
    before = counts(store)
    gone = searched(store, "gone")
    assert sum(count > before[name] for name, count in counts(store).items()) >= 10
    delete_runs(store, [gone])
    assert counts(store) == before
    with pytest.raises(UnknownRun):
        store.run("gone")
    assert store.run("kept").id == kept.id
    store.create_run("gone", {}, command="", seed=0, commit="")  # its name is free
    with store.read() as connection:
        indexes = [index["name"] for name in before for index in inspect(connection).get_indexes(name)]
    assert not any(str(name).startswith("housekeeping") for name in indexes)


def test_a_run_that_is_written_is_refused_and_the_others_named_with_it_stay(store, address, opened):
    first, second = searched(store, "first"), searched(store, "second")
    other = opened(address)
    other.lease(second.id)
    before = counts(store)
    with pytest.raises(RunBusy, match="second"):
        delete_runs(store, [first, second])
    with pytest.raises(RunBusy, match="second"):
        rename_runs(store, [second], "third")
    assert counts(store) == before
    store.lease(first.id).release()  # nothing holds it


def test_a_comparison_is_renamed_with_its_runs(store):
    planned(store)
    rename_runs(store, runs_named(store, "cmp"), "better")
    assert [run.name for run in runs_named(store, "better")] == [f"better/{one}" for one in NAMES]
    with pytest.raises(UnknownRun, match="it has better"):
        runs_named(store, "zzz")
    with pytest.raises(UnknownRun, match="did you mean better"):
        runs_named(store, "bettre")
    store.lease(runs_named(store, "better")[0].id).release()


def test_a_name_is_taken_by_a_run_or_a_comparison(store):
    planned(store)
    run = store.create_run("solo", {}, command="", seed=0, commit="")
    store.create_run(run_name("third", "vpo", 1), {}, command="", seed=0, commit="")
    before = store.runs()
    for name in ("cmp", "solo", "cmp/grpo/s0"):
        for refused in (check_free, planned, lambda store, name: rename_runs(store, [run], name)):
            with pytest.raises(RunExists):
                refused(store, name)
    with pytest.raises(RunExists):
        planned(store, "third")
    for refused in (
        lambda: store.create_run("-x", {}, command="", seed=0, commit=""),
        lambda: planned(store, "a@b"),
        lambda: rename_runs(store, [run], "[bold]"),
    ):
        with pytest.raises(BadName):
            refused()
    assert store.runs() == before


@pytest.mark.parametrize(
    "name",
    ["", " ", "-x", "--yes", "a@b", "a\nb", "a\x1b[0m", "a\x00", "a\u202eb", "[red]x", "<b>", "a&b", "a'b", 'a"b',
     "a`b`", "a\\b", "x" * 81, " a", "a ", "/a", "a/", "a\u00a0b", "a\ud800"],
)  # fmt: skip
def test_what_can_be_no_name_is_said_in_one_line(name):
    with pytest.raises(BadName) as caught:
        check_name(name)
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["a", "vpo-2.1_b", "größe", "名前", "two words", "cmp/vpo/s0", "x" * 80])
def test_what_can_be_one(name):
    assert check_name(name) == name
    assert check_name(readable_name(9))


RUNS = [PlannedRun(arm, seed, {"policy": arm}) for seed in (0, 1) for arm in ("grpo", "vpo")]
NAMES = ["grpo/s0", "vpo/s0", "grpo/s1", "vpo/s1"]


def planned(store, name="cmp"):
    return plan(store, name, RUNS, command="evo compare", commit="c")


def test_all_runs_wait_in_their_order(store):
    assert planned(store) == "cmp"
    runs = runs_named(store, "cmp")
    assert [run.name for run in runs] == [f"cmp/{one}" for one in NAMES]
    assert {run.status for run in runs} == {"waiting"}
    assert [(run.arm, run.seed, run.config["policy"]) for run in runs][1] == ("vpo", 0, "vpo")
    assert runs_named(store, "cmp/vpo/s0")[0].comparison == "cmp"


def test_without_a_name_it_gets_a_fresh_one(store):
    first, second = planned(store, None), planned(store, None)
    assert first != second
    with pytest.raises(UnknownRun, match=f"it has {second}, {first}$"):
        runs_named(store, "absent")
