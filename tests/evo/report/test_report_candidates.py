"""The candidates on the page: which are chosen, what is left out, and the budgets of the x-axis."""

from dataclasses import replace

import numpy as np
import pytest

from evo.chart import POINTS
from evo.comparison.load import gather
from evo.report import candidates
from evo.report.candidates import MOST_LISTED, MOST_NODES, candidate_values, chosen_candidates, tree_values
from evo.report.charts import spending
from evo.report.lineage import find_longest, load_texts
from evo.report.load import RunReading, read_run
from islands.store import Store


@pytest.fixture(scope="module")
def read(made):
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
        yield store, comparison, readings, load_texts(store, find_longest(readings))


def grown(lineage, count):
    """The lineage's search with `count` more candidates, each a child of the one before. Every fifth failed."""
    search = lineage.search
    ids = np.concatenate([search.ids, search.ids[-1] + 1 + np.arange(count)])
    more = {"ids": ids, "parents": np.concatenate([search.parents, ids[-count - 1 : -1]])}
    more["born"] = np.concatenate([search.born, 100 + np.arange(count)])
    more["fitness"] = np.concatenate([search.fitness, np.random.default_rng(0).random(count) * 0.5])
    more["valid"] = np.concatenate([search.valid, np.arange(count) % 5 > 0])
    return replace(lineage, search=replace(search, **more))


def test_of_many_candidates_a_bounded_choice_has_the_best_the_lineages_and_failures(read):
    _, _, _, lineages = read
    large = [grown(lineage, 20_000) for lineage in lineages]
    searches = [lineage.search for lineage in large]
    chosen = chosen_candidates(searches, large)
    assert len(chosen) == len(set(chosen)) == MOST_LISTED
    assert {search.problem.best for search in searches} <= set(chosen)
    assert {step.candidate for lineage in large for step in lineage.steps} <= set(chosen)
    failed = {int(id) for search in searches for id in search.ids[~search.valid]}
    assert len(failed & set(chosen)) > 50
    few = lineages[0].search
    assert set(chosen_candidates([few], lineages[:1])) >= set(few.ids.tolist())


def test_a_tree_is_bounded_has_the_whole_line_and_counts_the_rest(read):
    lineage = read[3][0]
    small, large = tree_values(lineage, 1), tree_values(grown(lineage, 20_000), 1)
    assert small["left"] == 0 and len(small["ids"]) == int(lineage.search.valid.sum())
    assert [small["ids"][node] for node in small["line"]] == [int(lineage.search.ids[at]) for at in lineage.line]
    assert small["line"][:-1] == [small["parents"][node] for node in small["line"][1:]]
    assert len(large["ids"]) == MOST_NODES and large["failed"] == 4_000 + small["failed"]
    assert len(large["ids"]) + large["left"] == 16_000 + len(small["ids"])
    assert all(parent < node for node, parent in enumerate(large["parents"]))
    assert [large["ids"][node] for node in large["line"]] == [small["ids"][node] for node in small["line"]]


def test_texts_are_given_until_their_characters_are_spent(read, monkeypatch):
    store, comparison, readings, lineages = read
    whole = candidate_values(store, comparison, readings, lineages)
    assert not any(entry["cut"] for entry in whole["candidates"]) and whole["stored"] >= len(whole["candidates"]) > 400
    assert all(whole["texts"][entry["prompt"]] for entry in whole["candidates"] if entry["iteration"])
    monkeypatch.setattr(candidates, "PAGE_CHARS", 3_000)
    some = candidate_values(store, comparison, readings, lineages)
    full = [entry["id"] for entry in some["candidates"] if not entry["cut"]]
    searches = [search for runs in readings.values() for run in runs for search in run.searches]
    assert 0 < len(full) < 100 and set(full) <= set(chosen_candidates(searches, lineages)[:100])
    assert sum(map(len, some["texts"])) < 3_000 + 2 * candidates.TEXT_CHARS


def test_budgets_end_at_what_the_arms_have_spent(read):
    _, comparison, readings, _ = read
    axes = spending(comparison, readings)
    assert "cost" not in axes  # the made-up policies have no price
    for place, arm in enumerate(comparison.arms):
        runs = readings[arm.name]
        searches = sum(len(run.searches) for run in runs)
        assert axes["iterations"][place][-1] == 12 and axes["answers"][place][-1] == 12 * arm.answers
        assert axes["tokens"][place][-1] == pytest.approx(sum(run.totals.tokens for run in runs) / searches, rel=1e-4)
        for unit in axes:
            assert axes[unit][place][0] == 0 and len(axes[unit][place]) == len(axes["iterations"][place]) <= POINTS
            assert np.all(np.diff(axes[unit][place]) >= 0)


def test_an_arm_that_waits_has_spent_nothing(read):
    _, comparison, readings, _ = read
    waiting = {**readings, "base": [RunReading(run.run, ()) for run in readings["base"]]}
    axes = spending(comparison, waiting)
    at = [arm.name for arm in comparison.arms].index("base")
    assert all(columns[at] == [0.0] for columns in axes.values()) and "tokens" in axes
