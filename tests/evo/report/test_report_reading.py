"""Reading a run in bulk says what the queries for single things say."""

import numpy as np
import pytest

from evo.comparison.load import gather
from evo.report.load import read_run
from islands.browse import ancestors
from islands.runs import best, elites, run_totals
from islands.store import Store


@pytest.fixture
def store(made):
    with Store.open(made, read_only=True) as opened:
        yield opened


def test_a_reading_agrees_with_the_queries(store):
    run = gather(store, "made-up").runs[1]
    reading = read_run(store, run)
    totals = reading.totals
    assert totals == run_totals(store, run.id) and totals.groups > 0
    assert totals.sampling_seconds == pytest.approx(0.02 * totals.groups)
    assert totals.scoring_seconds == pytest.approx(1e-4 * totals.answers)
    assert totals.answers == sum(len(search.answered) for search in reading.searches)
    assert totals.answers - totals.repeats == sum(len(search.ids) for search in reading.searches)
    for search, (problem, candidate) in zip(reading.searches, best(store, run.id), strict=True):
        assert search.problem == problem
        at = search.ordinal(candidate.id)
        assert tuple(search.rewards[at]) == candidate.rewards
        assert search.fitness[search.valid].max() == candidate.fitness == search.fitness[at]
        assert len(search.answered) == 36 and list(search.at) == sorted(search.at) and search.at[-1] == 11
        # an answer is given no earlier than its candidate was born, and the first time in that iteration
        assert (search.born[search.answered] <= search.at).all()
        assert [c.candidate for c in search.cells] == [e.candidate for e in elites(store, [problem.id])]


def test_the_line_of_a_candidate_is_its_lineage(store):
    search = read_run(store, gather(store, "made-up").runs[0]).searches[2]
    told = [ancestor.candidate for ancestor in ancestors(store, search.problem.best)]
    assert len(told) > 1
    assert [int(search.ids[at]) for at in reversed(search.line(search.problem.best))] == told


def test_failed_and_misread_answers_are_counted_by_kind(search_with, digits, digits_policy, tmp_path):
    db = f"sqlite:///{tmp_path / 'runs.db'}"
    search_with([digits(), digits("other")], digits_policy(), db, iterations=20)
    with Store.open(db, read_only=True) as store:
        reading = read_run(store, store.run("run"))
    assert reading.totals.errors == {"not eight digits": 2}  # one distinct wrong answer for each problem
    assert all((search.fitness[~search.valid] == 0).all() for search in reading.searches)
    assert sum((~search.valid[search.answered]).sum() for search in reading.searches) > 2
    assert reading.misread == {}


def test_a_run_that_waits_has_nothing(store):
    run = gather(store, "made-up").runs[0]
    nothing = read_run(store, type(run)(**{**vars(run), "id": 10_000}))
    assert nothing.searches == () and nothing.totals.answers == 0


def test_problems_of_different_dimensions_are_kept_apart(search_with, digits, any_text, digits_policy, tmp_path):
    db = f"sqlite:///{tmp_path / 'runs.db'}"
    three = any_text()
    three.objectives = ("a", "b", "c")
    score = three.score
    three.score = lambda answer: type(score(answer))((0.1, 0.2, 0.3), 0.2, {})
    search_with([digits(), three], digits_policy(), db, iterations=3)
    with Store.open(db, read_only=True) as store:
        shapes = [search.rewards.shape[1] for search in read_run(store, store.run("run")).searches]
    assert shapes == [2, 3]
    assert np.isfinite(shapes).all()
