"""Deleting and renaming: all of a run or nothing, never one that is being written; and what names there can be."""

import pytest
from sqlalchemy import func, inspect, select
from support.island_samples import new_problem, search, small_config

from islands.comparisons import PlannedRun, check_free, delete_runs, plan, rename_runs, runs_named
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
    plan(store, "cmp", [PlannedRun(arm, 0, {}) for arm in ("a", "b")], command="", commit="")
    rename_runs(store, runs_named(store, "cmp"), "better")
    assert [run.name for run in runs_named(store, "better")] == ["better/a/s0", "better/b/s0"]
    with pytest.raises(UnknownRun, match="it has better"):
        runs_named(store, "zzz")
    store.lease(runs_named(store, "better")[0].id).release()


def test_a_name_is_taken_by_a_run_or_a_comparison(store):
    plan(store, "cmp", [PlannedRun("a", 0, {})], command="", commit="")
    run = store.create_run("solo", {}, command="", seed=0, commit="")
    for name in ("cmp", "solo"):
        with pytest.raises(RunExists):
            check_free(store, name)
        with pytest.raises(RunExists):
            rename_runs(store, [run], name)
    with pytest.raises(BadName):
        store.create_run("-x", {}, command="", seed=0, commit="")
    with pytest.raises(BadName):
        plan(store, "a@b", [PlannedRun("a", 0, {})], command="", commit="")
    with pytest.raises(BadName):
        rename_runs(store, [run], "[bold]")


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
