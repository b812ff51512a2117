"""Planned comparisons: all of their runs or none, under names that nothing else has."""

import pytest

from islands.comparisons import PlannedRun, comparison_names, plan, run_name, runs_named
from islands.errors import RunExists, UnknownRun

RUNS = [PlannedRun(arm, seed, {"policy": arm}) for seed in (0, 1) for arm in ("grpo", "vpo")]


def planned(store, name="cmp", runs=RUNS):
    return plan(store, name, runs, command="evo compare", commit="c")


def test_all_runs_wait_in_their_order(store):
    assert planned(store) == "cmp"
    runs = runs_named(store, "cmp")
    assert [run.name for run in runs] == ["cmp/grpo/s0", "cmp/vpo/s0", "cmp/grpo/s1", "cmp/vpo/s1"]
    assert {run.status for run in runs} == {"waiting"}
    assert [(run.arm, run.seed, run.config["policy"]) for run in runs][1] == ("vpo", 0, "vpo")
    assert runs_named(store, "cmp/vpo/s0")[0].comparison == "cmp"


def test_a_name_that_is_taken_stores_nothing(store):
    planned(store)
    store.create_run("solo", {}, command="", seed=0, commit="")
    store.create_run(run_name("third", "vpo", 1), {}, command="", seed=0, commit="")
    before = len(store.runs())
    for name in ("cmp", "solo", "third", "cmp/grpo/s0"):
        with pytest.raises(RunExists):
            planned(store, name)
    assert len(store.runs()) == before


def test_without_a_name_it_gets_a_fresh_one(store):
    first, second = planned(store, None), planned(store, None)
    assert first != second
    assert comparison_names(store) == [second, first]


def test_an_unknown_name_is_answered_with_close_ones(store):
    planned(store, "maze-night")
    with pytest.raises(UnknownRun, match="did you mean maze-night"):
        runs_named(store, "maze-nigth")
