"""Figures of the report against the definitions that they stand for."""

from dataclasses import replace

import numpy as np
import pytest

from evo.comparison.load import gather, load_results
from evo.comparison.results import Results
from evo.report.charts import most_telling
from evo.report.load import read_run
from evo.report.measures import banded, measured, relative_best, seed_mean, spaced, subset_weights
from islands.store import Store
from vpo.metrics import best_at_k, diversity


@pytest.fixture(scope="module")
def read(made):
    with Store.open(made, read_only=True) as store:
        comparison = gather(store, "made-up")
        readings = {arm.name: [read_run(store, run) for run in arm.runs] for arm in comparison.arms}
        return load_results(store, comparison), readings


@pytest.mark.parametrize("n", [1, 2, 7, 120, 600])
def test_the_shared_weights_are_those_of_best_at_k(n):
    values = np.random.default_rng(n).normal(size=n)
    ks = spaced(n, 12)
    assert ks[0] == 1 and ks[-1] == n
    expected = [best_at_k(values, int(k)) for k in ks]
    assert subset_weights(n, ks) @ np.sort(values) == pytest.approx(expected, abs=1e-9)


def test_figures_are_of_the_answers_within_the_budget(read):
    found, readings = read
    one = measured(readings, found, 30)["base"]
    assert one.iterations == 10
    search = readings["base"][1].searches[3]
    given = search.answered[search.at < 10]
    vectors = search.rewards[given][search.valid[given]]
    assert one.diversity[3, 1] == pytest.approx(diversity(vectors))
    assert one.distinct[3, 1] == len(np.unique(vectors, axis=0))
    assert one.growth.mean[-1] == pytest.approx(one.distinct.mean())
    best = np.mean(
        [[best_at_k(s.fitness[s.answered[s.at < 10]], 30) for s in run.searches] for run in readings["base"]]
    )
    assert one.best_at_k.mean[-1] == pytest.approx(best)
    assert one.best_at_k.low[3] <= one.best_at_k.mean[3] <= one.best_at_k.high[3]
    assert one.by_block.at.tolist() == [3, 7, 10]


def test_missing_answers_count_zero_and_the_budget_is_one_for_all(read):
    found, readings = read
    short = {"base": [replace(run, searches=tuple(_without_half(s) for s in run.searches)) for run in readings["base"]]}
    whole, halved = (
        measured({"base": some["base"]}, {"base": found["base"]}, 36)["base"] for some in (readings, short)
    )
    assert halved.best_at_k.mean[0] < 0.7 * whole.best_at_k.mean[0]
    cheap = replace(found["grpo"], answers=1)
    both = measured(readings, {**found, "grpo": cheap}, 12)
    assert both["base"].iterations == 4 and both["grpo"].iterations == 12
    assert measured(readings, found, 2) == {}


def _without_half(search):
    kept = np.arange(len(search.answered)) % 2 == 0
    return replace(search, answered=search.answered[kept], at=search.at[kept], version=search.version[kept])


def test_no_best_at_k_where_searches_stopped_at_their_solution(read):
    found, readings = read
    stopping = {name: replace(one, until_solved=True) for name, one in found.items()}
    assert measured(readings, stopping, 36)["base"].best_at_k is None


def test_searches_that_have_not_come_as_far_are_left_out(read):
    found, readings = read
    done = found["base"].done.copy()
    done[0, 0], done[1] = 3, 3
    one = measured(readings, {**found, "base": replace(found["base"], done=done)}, 36)["base"]
    assert np.isnan(one.diversity[0, 0]) and np.isfinite(one.diversity[0, 1]) and np.isnan(one.diversity[1]).all()
    assert np.isfinite(one.best_at_k.mean).all()


def test_a_band_without_values_is_unknown():
    assert np.isnan(banded(np.full((3, 2, 4), np.nan), np.arange(4)).mean).all()


def test_relative_best_by_target_by_the_best_found_and_for_negative_fitness():
    best = np.array([[[0.2, 0.4]], [[1.0, 2.0]], [[-4.0, -2.0]]])
    other = np.array([[[0.8, 1.6]], [[4.0, 4.0]], [[-3.0, -2.0]]])
    solved = np.array([[np.inf], [np.nan], [np.nan]])
    done = np.array([[2], [2], [1]])
    shares = relative_best(
        {"a": Results(solved, done, 2, best=best), "b": Results(solved, done + [[0], [0], [1]], 2, best=other)},
        [0.8, None, None],
    )
    assert shares["a"][:2, 0].tolist() == [[0.25, 0.5], [0.25, 0.5]]
    assert shares["b"][:2, 0].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert shares["a"][2, 0, 0] == 0 and np.isnan(shares["a"][2, 0, 1]) and shares["b"][2, 0].tolist() == [0.5, 1.0]


def test_the_mean_over_seeds_is_of_the_known_ones():
    cube = np.array([[[1.0, np.nan], [3.0, np.nan]], [[np.nan, 2.0], [5.0, 4.0]]])
    assert seed_mean(cube)[0, 0] == 2 and np.isnan(seed_mean(cube)[0, 1]) and seed_mean(cube)[1].tolist() == [5, 3]


def test_the_telling_problems_are_those_where_arms_differ():
    a, b = np.zeros((4, 3)), np.zeros((4, 3))
    b[2], b[1, 2] = 1.0, 1.0
    assert most_telling([a, b], 2) == [1, 2]
    assert most_telling([np.cumsum(b, axis=1)], 1) == [2]
