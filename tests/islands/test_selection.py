"""Strategies, on islands made by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.island_samples import small_config

from islands.population import selection
from islands.population.archipelago import Archipelago
from islands.population.columns import Columns
from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace
from islands.population.island import GridArchive, Island


def made(rewards: list[tuple[float, ...]], island_of=lambda n: 0, fitness=None, **settings) -> Archipelago:
    """A population of these candidates, each in a cell of its own. Ordinals follow the list."""
    config = {"feature_dimensions": ("rewards",), "feature_bins": 50, "population_size": None, **settings}
    archipelago = Archipelago(small_config(**config), ("a", "b", "c")[: len(rewards[0])])
    for n, vector in enumerate(rewards):
        value = sum(vector) / 2 if fitness is None else fitness[n]
        measures = vector if archipelago.space.dimensions else ()
        ordinal = archipelago.columns.append(n + 1, b"%d" % n, value, vector, measures, 0, True)
        archipelago.add_group(island_of(n), None, [n + 1], {n + 1})
        assert ordinal == n
    return archipelago


def shares(draw, count=4000) -> dict[int, float]:
    rng = np.random.default_rng(0)
    drawn = Counter(draw(rng) for _ in range(count))
    return {item: n / count for item, n in drawn.items()}


GRID = [(0.1, 0.9), (0.9, 0.1), (0.6, 0.6), (0.2, 0.3), (0.05, 0.05)]


def test_openevolve_mixes_its_three_draws():
    archipelago = made(GRID, archive_size=2)  # the hall: the two fittest, 2 and the older of the 0.5s
    draw = lambda rng: selection.openevolve(archipelago, 0, rng)  # noqa: E731
    assert sorted(o for o, _ in archipelago.hall._all) == [0, 2]
    total = sum(sum(v) / 2 for v in GRID)
    got = shares(draw, 20_000)
    for n, vector in enumerate(GRID):
        expected = 0.2 / 5 + 0.7 * (0.5 if n in (0, 2) else 0) + 0.1 * (sum(vector) / 2) / total
        assert got[n] == pytest.approx(expected, abs=0.012)


def test_exploitation_borrows_from_other_islands():
    archipelago = made(
        GRID, island_of=lambda n: 0 if n == 2 else 1, archive_size=1, exploration_ratio=0, exploitation_ratio=1
    )
    assert set(shares(lambda rng: selection.openevolve(archipelago, 1, rng), 50)) == {2}


def test_weighted_takes_the_best_under_some_weights_only():
    archipelago = made(GRID, strategy="weighted")
    got = shares(lambda rng: selection.weighted(archipelago, 0, rng))
    assert set(got) == {0, 1, 2}
    # w = (u, 1-u): 0 wins where .1u + .9(1-u) > .6, that is u < .375; 1 likewise; 2 between
    assert got[0] == pytest.approx(0.375, abs=0.03) and got[2] == pytest.approx(0.25, abs=0.03)


def test_inspirations_are_best_then_near_then_anybody():
    archipelago = made([(x / 30, 1 - x / 30) for x in range(30)], fitness=[float(n) for n in range(30)])
    archipelago = archipelago
    rng = np.random.default_rng(0)
    near = Counter()
    for _ in range(300):
        chosen = selection.choose_inspirations(archipelago, 0, 10, 4, rng)
        assert len(chosen) == len(set(chosen)) == 4 and 10 not in chosen and chosen[0] == 29
        near.update(abs(o - 10) <= 2 for o in chosen[1:])
    # far more of the near ones than the 4/28 of chance
    assert near[True] / sum(near.values()) > 0.3
    assert selection.choose_inspirations(archipelago, 0, 29, 0, rng) == []
    assert 29 not in selection.choose_inspirations(archipelago, 0, 29, 3, rng)


def test_small_islands_inspire_with_their_best_alone():
    archipelago = made(GRID[:2], fitness=[1.0, 2.0])
    rng = np.random.default_rng(0)
    assert selection.choose_inspirations(archipelago, 0, 0, 2, rng) == [1]
    assert selection.choose_inspirations(archipelago, 0, 1, 2, rng) == []


def test_an_empty_island_borrows():
    archipelago = made(GRID, island_of=lambda n: 0 if n < 2 else 2)
    rng = np.random.default_rng(0)
    homes = {selection.choose_island(archipelago, 1, rng) for _ in range(50)}
    assert homes == {0, 2} and selection.choose_island(archipelago, 2, rng) == 2
    parent, inspirations, best = selection.choose(archipelago, 1, rng)
    assert parent is not None and best and parent not in inspirations


def test_hill_shows_the_best_that_was_ever_stored_and_nothing_else():
    archipelago = made(GRID, strategy="hill", islands=1)
    assert selection.choose(archipelago, 0, np.random.default_rng(0)) == (2, [], [])
    ties = made([(0.4, 0.6), (0.6, 0.4), (0.1, 0.1)], strategy="hill", islands=1)
    assert selection.choose(ties, 0, np.random.default_rng(0)) == (0, [], []), "the first of equals"


def test_scs_draws_from_all_successful_ones_alike():
    vectors = [*GRID, (0.0, 0.0)]  # the last is valid and scores what a failed answer does: no success
    archipelago = made(
        vectors, strategy="scs", islands=1, population_size=2, num_diverse_programs=1, num_top_programs=1
    )
    failed = archipelago.columns.append(7, b"failed", 0.0, (0.0, 0.0), (), 0, False)
    archipelago.add_group(0, None, [7], {7})
    assert len(archipelago.islands[0]) == 2, "most are members no more, and are shown all the same"
    parents, company = Counter(), Counter()
    for seed in range(4000):
        parent, others, best = selection.choose(archipelago, 0, np.random.default_rng(seed))
        assert len({parent, *others}) == 3 and best == []
        parents[parent] += 1
        company.update(others)
    assert set(parents) == set(company) == {0, 1, 2, 3, 4} and failed not in parents
    assert all(n == pytest.approx(800, abs=90) for n in parents.values())
    assert all(n == pytest.approx(1600, abs=120) for n in company.values())


def test_scs_shows_what_there_is_and_nothing_before_the_first_success():
    archipelago = made([(0.0, 0.0)], strategy="scs", islands=1)
    assert selection.choose(archipelago, 0, np.random.default_rng(0)) == (None, [], [])
    archipelago = made([(0.0, 0.0), (0.5, 0.0), (-1.0, 0.2)], fitness=[0.0, 0.25, -0.4], strategy="scs", islands=1)
    drawn = [selection.choose(archipelago, 0, np.random.default_rng(n)) for n in range(20)]
    assert {(parent, tuple(others)) for parent, others, _ in drawn} == {(1, (2,)), (2, (1,))}


@pytest.mark.parametrize("strategy", ["hill", "scs"])
def test_baselines_have_no_islands(strategy):
    assert PopulationConfig.model_validate({"strategy": strategy}).model_dump(exclude_unset=True)["islands"] == 1
    with pytest.raises(ValueError, match=f"strategy {strategy} has no islands"):
        PopulationConfig.model_validate({"strategy": strategy, "islands": 3})


def test_pareto_draws_from_what_nothing_dominates_and_of_equals_the_oldest():
    # the third is best under no weighting of the first two; the fourth is dominated, the last equals the first
    vectors = [(1.0, 0.0), (0.0, 1.0), (0.4, 0.4), (0.3, 0.3), (1.0, 0.0)]
    archipelago = made(vectors, strategy="pareto", islands=1, climb=0)
    draws = {selection.pareto(archipelago, 0, np.random.default_rng(seed)) for seed in range(60)}
    assert draws == {0, 1, 2}
    assert 2 not in {selection.weighted(archipelago, 0, np.random.default_rng(seed)) for seed in range(60)}


def test_a_large_front_gives_a_pool():
    """What serves most weightings: w . (.7, .7) = .7, and for w[0] > .7 the corner gains .045, the
    integral of w - .7, and (.9, .2) gains .029."""
    vectors = [(1.0, 0.0), (0.9, 0.2), (0.7, 0.7), (0.2, 0.9), (0.0, 1.0)]
    archipelago = made(vectors, fitness=list(range(5)), strategy="pareto", pareto_pool=3, climb=0, islands=1)
    draws = {selection.pareto(archipelago, 0, np.random.default_rng(seed)) for seed in range(60)}
    assert draws == {0, 2, 4}


def test_pareto_climbs_the_best_of_a_random_weighting_and_leaves_it_as_its_visits_grow():
    archipelago = made([(0.0, 1.0), (1.0, 0.0), (0.3, 0.3)], fitness=[0.0, 1.0, 0.5], islands=1, exploration_ratio=1,
                  exploitation_ratio=0)  # fmt: skip
    for visits in (0, 1, 4):
        while archipelago.islands[0].visits[0] < visits:
            archipelago.add_group(0, 1, [], set())  # candidate 1 is the first, good in b
        share = 1 / (1 + visits)
        got = shares(lambda rng: selection.auto(archipelago, 0, rng))
        # each corner is the best under half of the weightings; else each of the front of three alike
        rest = (1 - share) / 2 / 3
        assert got[0] == pytest.approx(share / 2 + rest, abs=0.03)
        assert got[1] == pytest.approx(1 / 2 + rest, abs=0.03)


def test_a_front_keeps_what_left_the_island():
    """Neither a fitter answer in its cell nor the cap takes the best of a goal out of the front."""
    vectors = [(0.9, 0.0), (0.0, 0.8), (0.7, 0.6), (0.6, 0.7), (0.5, 0.5)]
    archipelago = made(vectors, islands=1, feature_bins=1, archive_size=1, population_size=2)
    (island,) = archipelago.islands
    assert len(island) <= 2 and island.front.members == [0, 1, 2, 3]
    pool, rewards = island.front.pool(8)
    assert pool == [0, 1, 2, 3] and rewards.tolist() == [list(v) for v in vectors[:4]]


@pytest.mark.parametrize("climb", [1.0, 3.0])
def test_auto_stays_with_the_fittest_and_leaves_it_as_its_visits_grow(climb):
    archipelago = made([(0.5,), (1.0,)], fitness=[0.5, 1.0], climb=climb, exploration_ratio=1, exploitation_ratio=0)
    for visits in (0, 1, 4):
        while archipelago.islands[0].visits[1] < visits:
            archipelago.add_group(0, 2, [], set())
        share = climb / (climb + visits)
        got = shares(lambda rng: selection.auto(archipelago, 0, rng))
        assert got[1] == pytest.approx(share + (1 - share) / 2, abs=0.03)


def test_by_default_a_vector_is_weighed_and_one_number_is_chosen_as_openevolve_does():
    assert PopulationConfig().strategy == "auto"
    for vectors, same in ((GRID, selection.pareto), ([(v[0],) for v in GRID], selection.openevolve)):
        archipelago = made(vectors, climb=0)
        draws = [
            [choose(archipelago, 0, np.random.default_rng(seed)) for seed in range(30)]
            for choose in (selection.auto, same)
        ]
        assert draws[0] == draws[1]
    assert draws[0] != [selection.weighted(archipelago, 0, np.random.default_rng(seed)) for seed in range(30)]


def test_draws_follow_fitness():
    fitness = [1.0, 0.0, 3.0, -5.0, 6.0, 90.0]
    columns = Columns(1)
    for number, value in enumerate(fitness):
        columns.append(number, bytes([number]), value, (value,), (), 0, True)
    island = Island(columns, GridArchive(columns, FeatureSpace(("score",), lambda names: (1,) * len(names), 1)))
    with pytest.raises(IndexError):
        island.members.draw(np.random.default_rng(0))
    for number in range(len(fitness)):
        island.join(number)
    island.leave(5)
    rng = np.random.default_rng(1)
    drawn = [island.draw_by_fitness(rng) for _ in range(20_000)]
    assert [drawn.count(number) / 20_000 for number in range(6)] == pytest.approx([0.1, 0, 0.3, 0, 0.6, 0], abs=0.015)
    uniform = [island.members.draw(rng) for _ in range(20_000)]
    assert all(uniform.count(number) / 20_000 == pytest.approx(0.2, abs=0.015) for number in range(5))
