"""The parallel scorer: order, bounds, faults, counters; weights that a user names; the best set of k vectors."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems import BadAddress, Problem, Score, Scorer, ScorerFault, resolve
from problems.answer_sets import best_set
from problems.maze.optimum import best_route
from problems.maze.sets import problem_set
from problems.objectives import Objective, describe_directions, fitness_objective, value_of
from problems.sandbox.contract import SandboxFault
from problems.scoring import MOST_FAULTS
from problems.weights import (
    describe_fitness,
    order_weights,
    parse_weights,
    scorer_fingerprint,
    weigh_as_stored,
)


class Toy(Problem):
    """Scores a number; knows how many were at it at once."""

    name, objectives, target = "toy", ("value",), 1.0

    def __init__(self, seconds=0.0, raises=None, gives=None):
        self.seconds, self.raises, self.gives = seconds, raises, gives
        self.lock, self.now, self.most, self.calls, self.threads = threading.Lock(), 0, 0, 0, set()

    def statement(self):
        return "Write a number."

    def score(self, answer):
        if not answer.isdecimal() or len(answer) > 3:
            return Score.failure(1, "no number")
        with self.lock:
            self.now += 1
            self.calls += 1
            self.most = max(self.most, self.now)
            self.threads.add(threading.get_ident())
        try:
            time.sleep(self.seconds * (2 - float(answer) / 100))
            if self.raises is not None and answer == "3":
                raise self.raises
            return self.gives or Score((float(answer),), float(answer))
        finally:
            with self.lock:
                self.now -= 1


class InlineToy(Toy):
    inline = True


def scored(problem, answers, workers=4):
    async def main():
        scorer = Scorer(workers)
        try:
            return scorer, await scorer.score(problem, answers)
        finally:
            scorer.close()

    return asyncio.run(main())


def test_order_is_kept_and_concurrency_bounded():
    toy = Toy(seconds=0.01)
    scorer, results = scored(toy, [str(n) for n in range(20)], workers=3)
    assert [score.fitness for score, _ in results] == list(range(20))
    assert 1 < toy.most <= 3
    assert scorer.scored == 20 and scorer.queued == 0
    assert scorer.busy_seconds == pytest.approx(sum(seconds for _, seconds in results)) and scorer.busy_seconds >= 0.2


def test_several_callers_share_the_bound_and_the_queue_is_counted(monkeypatch):
    toy, go = Toy(seconds=0.02), threading.Event()
    monkeypatch.setattr(time, "sleep", lambda seconds: go.wait(30))

    async def main():
        scorer = Scorer(2)
        groups = [asyncio.create_task(scorer.score(toy, ["1"] * 4)) for _ in range(3)]
        while toy.now < 2:
            await asyncio.sleep(0.001)
        waiting = scorer.queued
        go.set()
        await asyncio.gather(*groups)
        scorer.close()
        scorer.close()
        with pytest.raises(RuntimeError, match="closed"):
            await scorer.score(toy, ["1"])
        return waiting

    assert asyncio.run(main()) == 10
    assert toy.most == 2 and toy.calls == 12


def test_inline_problems_are_scored_on_the_loop():
    toy = InlineToy()
    scored(toy, ["1", "2"])
    assert toy.threads == {threading.get_ident()}
    other = Toy()
    scored(other, ["1", "2"])
    assert threading.get_ident() not in other.threads


@pytest.mark.parametrize("kind", [Toy, InlineToy])
def test_any_exception_of_a_scorer_is_its_fault_and_names_the_problem(kind):
    with pytest.raises(ScorerFault, match="toy: the scorer raised KeyError: 'x'") as caught:
        scored(kind(raises=KeyError("x")), ["1", "2", "3"])
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("error", [ScorerFault("mine"), SandboxFault("broken")])
def test_faults_that_say_whose_they_are_pass_through(error):
    with pytest.raises(type(error)) as caught:
        scored(Toy(raises=error), ["3"])
    assert caught.value is error


def test_a_fault_stops_what_has_not_started():
    toy = Toy(seconds=0.01, raises=ValueError("no"))
    with pytest.raises(ScorerFault):
        scored(toy, ["3"] + ["1"] * 50, workers=1)
    assert toy.calls < 10


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        (Score((1.0, 2.0), 1.0), "2 rewards for the 1 objectives"),
        (Score((float("nan"),), 1.0), "value = nan"),
        (Score((1.0,), float("inf")), "fitness = inf"),
        ({"value": 1.0}, "must return a problems.Score"),
    ],
)
def test_scores_are_checked(gives, says):
    with pytest.raises(ScorerFault, match=says):
        scored(Toy(gives=gives), ["1"])


def test_a_scorer_needs_a_worker():
    with pytest.raises(ValueError, match="at least one worker"):
        Scorer(0)


class Picky(Problem):
    """Fails on answers with an x, and on its seed too once it is broken."""

    name, objectives = "picky", ("length",)

    def __init__(self, seed="seed", broken=False):
        self.seed, self.broken, self.seeds = seed, broken, 0

    def statement(self):
        return "Text."

    def seed_answer(self):
        return self.seed

    def score(self, answer):
        if "x" in answer:
            raise ZeroDivisionError("division by zero")
        return Score((float(len(answer)),), float(len(answer)))

    def score_seed(self):
        self.seeds += 1
        return self.score("x" if self.broken else self.seed)


def test_a_fault_that_an_answer_provokes_is_its_score_and_not_the_end_of_the_problem():
    picky = Picky()
    with pytest.warns(UserWarning, match="picky: the scorer raised ZeroDivisionError"):
        _, found = scored(picky, ["abc", "x", "ab", "xx"], workers=1)
    scores = [score for score, _ in found]
    assert [score.fitness for score in scores] == [3.0, 0.0, 2.0, 0.0] and picky.seeds == 2
    assert "division by zero" in scores[1].error and "division by zero" in scores[1].feedback


@pytest.mark.parametrize("picky", [Picky(broken=True), Picky(seed=""), Picky(seed="x")], ids=["broken", "none", "same"])
def test_a_fault_that_the_seed_does_not_disprove_is_the_scorers(picky):
    with pytest.raises(ScorerFault, match="division by zero"):
        scored(picky, ["x"])


def test_a_scorer_that_takes_nothing_but_its_seed_is_at_fault():
    with pytest.raises(ScorerFault, match="division by zero"), pytest.warns(UserWarning, match="counts as failed"):
        scored(Picky(), ["x" * n for n in range(1, MOST_FAULTS + 1)], workers=1)
    with pytest.warns(UserWarning, match="counts as failed"):
        _, found = scored(Picky(), ["good", *("x" * n for n in range(1, MOST_FAULTS + 1))], workers=1)
    assert len(found) == MOST_FAULTS + 1


# -- weights that a user names, and the best set of k vectors


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
