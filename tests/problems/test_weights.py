"""Weights that a user names: read, ordered, and as the fitness of problems; and the best set of k vectors."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems import BadAddress, resolve
from problems.answer_sets import best_set
from problems.maze.optimum import best_route
from problems.maze.sets import problem_set
from problems.objectives import Objective, describe_directions, fitness_objective, value_of
from problems.weights import (
    describe_fitness,
    order_weights,
    parse_weights,
    scorer_fingerprint,
    weigh_as_stored,
)

TWO = """
statement = "Write a number."
seed_answer = "3"
directions = {"cost": "min"}
weights = {"cost": 1, "gain": 3}
target = 0.9
def score(answer):
    try:
        x = float(answer)
    except ValueError:
        return {"error": "no number"}
    return {"cost": x + 1, "gain": x / 10}
def held_out(answer):
    return [score(answer), score(str(float(answer) + 2))]
"""
"""The scale of cost is that of the seed, 4. Of the answer 4 the rewards are 4 / (4 + 5) and .4."""


def test_weights_are_read_and_ordered_with_sum_1():
    assert (
        parse_weights(" gold=3, diamond = 1 ") == {"gold": 3.0, "diamond": 1.0} and parse_weights("spread") == "spread"
    )
    assert parse_weights("a=b=2") == {"a=b": 2.0}
    assert order_weights(("diamond", "gold", "safety"), {"gold": 3, "diamond": 1}, "x") == (0.25, 0.75, 0.0)
    assert order_weights(("a", "b"), {"a": 1.5e308, "b": 1.5e308}, "x") == (0.5, 0.5)
    assert describe_fitness({"gold": 3.0, "a": 0.0, "diamond": 0.5}) == "fitness: gold 3, diamond 0.5"
    assert describe_fitness("spread") == describe_fitness(None) == ""


# -- mazes -------------------------------------------------------------------------------------------------------------


def test_the_statement_of_a_maze_names_the_weights():
    (problem,) = problem_set("maze:test/0")
    assert "A route is judged by their mean.\n" in problem.statement()
    heavy = problem.weighted({"gold": 3, "diamond": 1})
    assert "A route is judged by the weighted mean: gold 3, diamond 1; the others do not count.\n" in heavy.statement()
    every = dict.fromkeys(problem.objectives, 2)
    assert "the weighted mean: completion 2, gold 2, diamond 2, safety 2.\n" in problem.weighted(every).statement()
    assert "A route is judged by gold alone.\n" in problem.weighted({"gold": 5, "safety": 0}).statement()


def test_a_weighted_maze_is_the_same_problem_under_another_fitness():
    (problem,) = problem_set("maze:test/0")
    heavy = problem.weighted({"gold": 3, "diamond": 1})
    route = best_route(problem.maze)
    assert heavy.name == problem.name and heavy.objectives == problem.objectives and problem.metrics == ()
    assert heavy.score(route).rewards == problem.score(route).rewards
    assert [(one.weight, one.counts) for one in heavy.metrics] == [(0, False), (0.75, True), (0.25, True), (0, False)]
    even = problem.weighted(dict.fromkeys(problem.objectives, 1))
    assert even.target == pytest.approx(problem.target) and even.score(route).fitness == problem.score(route).fitness
    assert scorer_fingerprint(heavy.fingerprint()) == problem.fingerprint() != heavy.fingerprint()
    assert heavy.fingerprint() == problem.weighted({"diamond": 2, "gold": 6}).fingerprint() != even.fingerprint()
    heavy.restore(heavy.metrics)
    assert heavy.weighted({"gold": 1}).score(route).fitness == heavy.score(route).rewards[1]
    assert problem.target_under((0.0, 0.75, 0.25, 0.0)) == heavy.target
    assert weigh_as_stored(problem, heavy.metrics).score(route).fitness == heavy.score(route).fitness
    assert weigh_as_stored(problem, tuple(map(Objective, problem.objectives))) is problem
    assert len({problem, heavy}) == 2


# -- scorers -----------------------------------------------------------------------------------------------------------


def test_a_scorer_file_is_judged_by_the_weights_and_not_by_its_own(scorer):
    problem = scorer(TWO)
    assert problem.score("4").fitness == pytest.approx((4 / 9 + 3 * 0.4) / 4)
    even = problem.weighted({"cost": 2, "gain": 2})
    assert even.score("4").fitness == pytest.approx((4 / 9 + 0.4) / 2) and even.score("4").values == (5.0, 0.4)
    assert even.score_seed().fitness == even.score("3").fitness == pytest.approx((0.5 + 0.3) / 2)
    cases = even.score_held_out_cases("4")
    assert [case.fitness for case in cases] == pytest.approx([(4 / 9 + 0.4) / 2, (4 / 11 + 0.6) / 2])
    assert even.score_held_out("4").fitness == pytest.approx(sum(case.fitness for case in cases) / 2)
    assert even.target is None and problem.weighted({"gain": 6, "cost": 2}).target == problem.target == 0.9
    assert even.statement().endswith("The fitness is the weighted mean: cost 2, gain 2.")
    assert type(even).__name__ == type(problem).__name__ and isinstance(even, type(problem))


def test_one_objective_to_be_lowered_is_the_fitness_in_its_own_unit(scorer):
    alone = scorer(TWO).weighted({"cost": 7})
    score = alone.score("4")
    assert fitness_objective(alone.metrics).name == "cost" and score.fitness == pytest.approx(4 / 9)
    assert value_of(alone.metrics, score.fitness, score.values).number == 5.0
    assert value_of(alone.metrics, score.fitness).number == pytest.approx(5.0)
    assert describe_directions(alone.metrics) == "Lower is better in cost."
    second = (Objective("gain", weight=0.0, counts=False), Objective("cost", True, 4.0, whole=True))
    assert value_of(second, 0.5, (9.0, 4.0)).number == 4.0 and value_of(second, 0.5).number == 4.0
    higher = scorer(TWO).weighted({"gain": 1})
    assert value_of(higher.metrics, higher.score("4").fitness, higher.score("4").values).number == 0.4


def test_the_scales_of_a_stored_search_count_under_weights_too(scorer):
    problem = scorer(TWO).weighted({"cost": 1, "gain": 1})
    problem.restore([replace(one, scale=8.0, seed=8.0) if one.lower else one for one in problem.metrics])
    assert problem.score("3").fitness == pytest.approx((8 / 12 + 0.3) / 2)  # the seed, which is not scored again
    assert problem.score("4").fitness == pytest.approx((8 / 13 + 0.4) / 2)


def test_weights_win_over_a_fitness_that_the_scorer_itself_gives(scorer):
    text = (
        'seed_answer = "1"\ndef score(answer):\n    x = float(answer)\n    return {"a": x, "b": 2 * x, "fitness": -x}\n'
    )
    problem = scorer(text)
    assert problem.score("3").fitness == -3
    assert problem.weighted({"a": 1, "b": 1}).score("3").fitness == 4.5
    assert not problem.metrics[0].counts and problem.weighted({"a": 1, "b": 1}).metrics[0].counts


EVALUATOR = """
def evaluate(program_path):
    scope = {}
    exec(open(program_path).read(), scope)
    x = scope["x"]
    return {"combined_score": 9.0, "depth": x, "thrift": 1 - x}
def held_out(program_path):
    return {"combined_score": 9.0, "depth": 0.25, "thrift": 1.0}
"""


def test_an_openevolve_directory_is_judged_by_the_metrics_beside_its_combined_score(tmp_path):
    (tmp_path / "evaluator.py").write_text(EVALUATOR)
    (tmp_path / "initial_program.py").write_text("x = 0.5\n")
    (problem,) = resolve(str(tmp_path))
    assert problem.objectives == ("combined_score",)
    heavy = problem.weighted({"depth": 3, "thrift": 1})
    assert heavy.objectives == ("depth", "thrift") and problem.objectives == ("combined_score",)
    assert heavy.score("x = 0.8\n").fitness == pytest.approx((3 * 0.8 + 0.2) / 4)
    assert heavy.score_seed().fitness == heavy.score("x = 0.5\n").fitness == pytest.approx(0.5)
    assert heavy.score_held_out("x = 1\n").fitness == pytest.approx((3 * 0.25 + 1) / 4)
    assert heavy.score_of_metrics({"depth": 1.0, "thrift": 0.0}).fitness == 0.75
    assert weigh_as_stored(problem, heavy.metrics).objectives == heavy.objectives
    assert problem.weighted({"combined_score": 2}).score("x = 0.8\n").fitness == 9.0
    with pytest.raises(BadAddress, match="it has combined_score, depth, thrift; did you mean depth"):
        problem.weighted({"dept": 1})


# -- the best set


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
def test_the_best_set_against_every_set(n, d, k, seed):
    draw = np.random.default_rng(seed)
    rewards, weights = draw.integers(0, 4, (n, d)) / 3, draw.integers(1, 4, d)

    def worth(places):
        return float(rewards[list(places)].max(axis=0) @ weights / weights.sum())

    places, value = best_set(rewards, k, weights)
    best = max(worth(each) for each in itertools.combinations(range(n), min(k, n)))
    assert value == pytest.approx(worth(places)) and value >= (1 - 1 / np.e) * best
    assert k > 1 or (value == pytest.approx(best) and places == [np.argmax(np.round(rewards @ weights, 9))])
    members = set(places)
    assert all(worth(members - {one} | {other}) <= value + 1e-9 for one in members for other in range(n))
    assert len(members) == 1 or all(worth(members - {one}) < value - 1e-9 for one in members)  # none adds nothing


def test_a_greedy_choice_that_is_not_the_best_is_swapped():
    # the all-rounder comes first, but the two specialists are better without it
    assert best_set([[0.6, 0.6], [1, 0], [0, 1]], 2) == ([1, 2], 1.0)
    assert best_set([[0.5], [1.0], [1.0]], 3) == ([1], 1.0)
    for arguments in (([], 1), ([[0.5]], 0), ([[np.inf]], 1), ([[1.0, 0.0]], 1, [0.0, 0.0])):
        with pytest.raises(ValueError, match="need finite rewards"):
            best_set(*arguments)
