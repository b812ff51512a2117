"""Stored runs read under other weights: each derived column by hand, and that a run's own weights change nothing."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from sqlalchemy import select
from support.island_samples import BOTH, OBJECTIVES, answer, fresh, group, new_problem, put, search, small_config

from islands.population.population import Population
from islands.reweigh import reweigh
from islands.runs import best, course_of
from islands.schema import METADATA, Candidates, PromptGroups, Runs
from islands.store import Store
from problems.contract import BadAddress
from problems.objectives import Objective
from problems.types import ScoredAnswer


def nowhere(record):
    """No problem can be looked up."""


def table_rows(store, table):
    with store.read() as connection:
        return [dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key))]


def scored(text: str, left: float, right: float, error: str | None = None) -> ScoredAnswer:
    return answer(text, (left + right) / 2, (left, right), error)


@pytest.fixture
def searched(store: Store) -> tuple[Store, dict[str, int]]:
    """Means .5 (seed), .4 and .55, .55, .3 of a repeat and a failed answer: solved at .55."""
    problem = new_problem(store, "run", target=0.55)
    population = Population(store, problem, small_config(islands=1))
    with store.begin() as tx:
        store.set_metrics(problem.id, SimpleNamespace(objectives=OBJECTIVES, metrics=()), None, tx)
        seed = population.seed(scored("seed", 0.5, 0.5), tx).candidate
    (a, b) = put(store, population, group(problem, 0, [scored("a", 0.8, 0.0), scored("b", 0.2, 0.9)], parent=seed))
    later = [scored("c", 0.9, 0.2), scored("b", 0.2, 0.9), scored("f", 0, 0, "broken"), scored("d", 0.9, 0.1)]
    (c, *_, d) = put(store, population, group(problem, 1, later, parent=b.candidate))
    with store.begin() as tx:
        store.set_problem_status(problem.id, "solved", solved_sequence=0, tx=tx)
    store.finish_run(problem.run_id, "done", summary={"seconds": 1.0, "solved": 1, "problems": [{"best": 0.55}]})
    ids = {"seed": seed, "a": a.candidate, "b": b.candidate, "c": c.candidate, "d": d.candidate}
    return store, ids


@BOTH
def test_all_that_follows_from_fitness_is_worked_out_again(searched):
    store, ids = searched
    found = SimpleNamespace(weighted=lambda weights: SimpleNamespace(target=0.7))
    with reweigh(store, [store.run("run")], {"left": 3, "right": 1}, lambda record: found) as copy:
        assert copy.address == store.address and str(copy.reweighed) == "left 3, right 1"
        assert copy.reweighed.lines == ("Judged under the weights left 3, right 1; searched under left 1, right 1.",)
        ((problem, answer),) = best(copy, store.run("run").id)
        fitness = {row["text"]: row["fitness"] for row in table_rows(copy, Candidates)}
        groups = table_rows(copy, PromptGroups)
        course = course_of(copy, problem.run_id).improvements[problem.id]
        summary, config = copy.run("run").summary, copy.run("run").config
    # three quarters of the left, one of the right
    assert fitness == pytest.approx({"seed": 0.5, "a": 0.6, "b": 0.375, "c": 0.725, "f": 0.0, "d": 0.7})
    assert (answer.id, problem.best, problem.target) == (ids["c"], ids["c"], 0.7)
    assert problem.best_fitness == pytest.approx(0.725)
    assert (problem.status, problem.solved_sequence) == ("solved", 1)
    assert [(one.weight, one.counts, one.whole) for one in problem.metrics] == [
        (0.75, True, False),
        (0.25, True, False),
    ]
    assert config["weights"] == {"left": 3, "right": 1}
    assert [(one["best"], one["best_fitness"]) for one in groups] == [
        (ids["a"], pytest.approx(0.6)), (ids["c"], pytest.approx(0.725)),
    ]  # fmt: skip
    assert [one.candidate for one in course] == [ids["seed"], ids["a"], ids["c"]]
    assert summary == {"seconds": 1.0}


def test_under_weights_whose_target_is_not_known_nothing_is_solved(searched):
    store, ids = searched
    with reweigh(store, [store.run("run")], {"right": 2}, nowhere) as copy:
        ((problem, answer),) = best(copy, store.run("run").id)
        lines = copy.reweighed.lines
    assert (problem.target, problem.solved_sequence, problem.status) == (None, None, "done")
    assert (answer.id, answer.fitness) == (ids["b"], 0.9)
    assert [(one.weight, one.counts, one.whole) for one in problem.metrics] == [(0.0, False, False), (1.0, True, True)]
    assert lines[1:] == ("Whether maze 0 is solved is not known under these weights.",)


def test_of_equal_answers_the_older_is_the_best(store):
    problem, population = fresh(store, "run", islands=1)
    put(store, population, group(problem, 0, [scored("a", 0.5, 0.1)]), group(problem, 1, [scored("b", 0.5, 0.9)]))
    with reweigh(store, [store.run("run")], {"left": 1}, nowhere) as copy:
        assert [one["best_fitness"] for one in table_rows(copy, PromptGroups)] == [0.5, None]


@BOTH
def test_its_own_weights_change_nothing(store):
    """Of two runs of a comparison, with repeats, failures, migrations, weights and a scorer that failed."""
    with ExitStack() as held:
        runs = []
        for number in range(2):
            problem = new_problem(store, f"run-{number}", target=0.9)
            metrics = (Objective("left"), Objective("right"))
            with store.begin() as tx:
                store.set_metrics(problem.id, SimpleNamespace(objectives=OBJECTIVES, metrics=metrics), None, tx)
            population = Population(store, problem, small_config())
            search(store, population, 40, seed=number)
            solved = next((one.sequence for one in course_of(store, problem.run_id).improvements[problem.id]
                           if one.fitness >= 0.9), None)  # fmt: skip
            status = "done" if solved is None else "solved"
            store.set_problem_status(problem.id, status, solved_sequence=solved)
            empty = store.add_problem(problem.run_id, 1, "x.py", "x.py", ("score",), None, "text")
            store.set_problem_status(empty.id, "failed", "no number")
            store.finish_run(problem.run_id, "done", summary={"solved": 1, "problems": [{"best": 1.0}], "verified": {}})
            runs.append(store.run(f"run-{number}"))
        copy = held.enter_context(reweigh(store, runs, {"left": 2, "right": 2.0}, nowhere))
        for table in METADATA.sorted_tables:
            rows = table_rows(copy, table)
            if table is Runs:
                assert [row["config"].pop("weights") for row in rows] == [{"left": 2, "right": 2.0}] * 2
            assert rows == table_rows(store, table), table.name
        assert len(table_rows(copy, Candidates)) > 100


def test_only_the_named_runs_are_copied_and_a_running_one_as_it_is_now(store):
    first, _ = new_problem(store, "first"), new_problem(store, "second")
    population = Population(store, first, small_config(islands=1))
    with store.lease(first.run_id):
        put(store, population, group(first, 0, [scored("a", 0.1, 0.2)]))
        with reweigh(store, [store.run("first")], {"left": 1}, nowhere) as copy:
            put(store, population, group(first, 1, [scored("b", 0.9, 0.2)]))
            assert [run.name for run in copy.runs()] == ["first"] and copy.run("first").status == "running"
            assert [problem.best_fitness for problem, _ in best(copy, first.run_id)] == [0.1]


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"lefd": 1}, "maze 0 has no objective 'lefd'; it has left, right; did you mean left?"),
        ({"left": -1}, "maze 0: the weight of left is -1, not a number of at least 0"),
        ({"left": 0}, "maze 0: the weights sum to 0; name an objective with a weight above 0"),
    ],
)
def test_weights_that_do_not_fit_are_refused(searched, weights, said):
    store, _ = searched
    with pytest.raises(BadAddress) as raised, reweigh(store, [store.run("run")], weights, nowhere):
        pass
    assert str(raised.value) == said
