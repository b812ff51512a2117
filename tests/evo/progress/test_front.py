"""The answers that weights choose from."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.command_line import evo
from support.stored_searches import best_under, store_vectors

from evo.progress import answer_set as fronts
from evo.progress.model import Progress
from islands.store import Store
from problems.objectives import Objective

PLAIN = (Objective("gold"), Objective("wood"))


def read(tmp_path, objectives, arms, **settings):
    """The front of the one problem, and what Progress itself has as the fittest answer of every arm."""
    address = f"sqlite:///{tmp_path / 'evo.db'}"
    store_vectors(address, "c", objectives, arms, **settings)
    with Store.open(address, read_only=True) as store:
        progress = Progress.open(store, "c")
        fittest = [search.rises[-1].candidate for _, search in sorted(progress.fittest().items())]
        return fronts.front_of(progress.comparison.problems[0], progress.read_valid(0)), fittest


def vectors(front, arm=0):
    return [one.stored.rewards for one in front.answers if one.arm == arm]


def test_it_holds_what_no_other_answer_beats_and_of_equal_vectors_the_first(tmp_path):
    given = [(0.0, 0.0), (1.0, 0.0), (0.4, 0.4), (0.5, 0.5), (0.5, 0.5), (0.0, 0.9), None, (1.0, 0.0)]
    front, fittest = read(tmp_path, PLAIN, {"a": given})
    # (.4, .4) and the seed are beaten; the second (.5, .5) and the second (1, 0) repeat; the fittest stand first
    assert vectors(front) == [(1.0, 0.0), (0.5, 0.5), (0.0, 0.9)]
    assert [one.stored.iteration for one in front.answers] == [0, 2, 4]
    assert front.weights == (1.0, 1.0) and front.left_out == 0
    assert [best_under(front, (1, 1)).stored.id] == fittest, "1 + 0 and .5 + .5 are equal: the first that was stored"
    assert best_under(front, (0, 2)).stored.rewards == (0.0, 0.9)
    assert best_under(front, (2, 3)).stored.rewards == (0.0, 0.9), ".54, .5 and .4"
    assert best_under(front, (11, 10)).stored.rewards == (1.0, 0.0)


def test_every_arm_has_its_own_and_starts_at_its_fittest(tmp_path):
    arms = {"a": [(0.1, 0.1), (0.3, 0.2)], "b": [(0.0, 0.0), (0.9, 0.0), (0.0, 0.8)], "c": [None, None, None]}
    front, fittest = read(tmp_path, PLAIN, arms)
    assert (vectors(front, 0), vectors(front, 1)) == ([(0.3, 0.2)], [(0.9, 0.0), (0.0, 0.8)])
    assert [best_under(front, (1, 1), arm).stored.id for arm in (0, 1)] == fittest
    assert best_under(front, (1, 1), 2) is None
    assert best_under(front, (1, 2)).stored.rewards == (0.0, 0.8)


def test_a_lowered_objective_counts_by_its_reward_and_the_problems_weights_come_first(tmp_path):
    # the reward of cost c is 10 / (10 + c): 1, .5 and .1
    objectives = (Objective("gain", weight=3.0), Objective("cost", True, 10.0, 10.0))
    front, fittest = read(tmp_path, objectives, {"a": [(0.2, 10.0), (0.9, 90.0), (0.1, 0.0), (0.5, 10.0)]})
    assert front.weights == (3.0, 1.0)
    assert np.array(vectors(front)) == pytest.approx(np.array([(0.9, 0.1), (0.5, 0.5), (0.1, 1.0)]))
    assert [one.stored.fitness for one in front.answers] == pytest.approx([0.7, 0.5, 0.325])
    assert [best_under(front, front.weights).stored.id] == fittest
    assert best_under(front, (1, 3)).stored.rewards == pytest.approx((0.1, 1.0))


def test_the_fittest_answer_is_there_even_if_an_objective_without_weight_beats_it(tmp_path):
    objectives = (Objective("gold"), Objective("wood", weight=0.0))
    front, fittest = read(tmp_path, objectives, {"a": [(0.0, 0.0), (1.0, 0.2), (1.0, 0.7)]})
    assert vectors(front) == [(1.0, 0.2), (1.0, 0.7)] and [best_under(front, (1, 0)).stored.id] == fittest
    assert best_under(front, (1, 1)).stored.rewards == (1.0, 0.7)


def test_the_weights_of_the_run_count_before_those_of_the_problem(tmp_path):
    given = {"a": [(0.0, 0.0), (0.2, 0.8)]}
    front, _ = read(tmp_path, PLAIN, given, weights={"wood": 1.0}, fitness=lambda rewards: rewards[1])
    assert front.weights == (0.0, 1.0)


def test_a_fitness_that_is_no_weighted_mean_leaves_no_weights_to_start_from(tmp_path):
    front, fittest = read(tmp_path, PLAIN, {"a": [(0.0, 0.0), (0.9, 0.5), (0.6, 0.7)]}, fitness=min)
    assert front.weights is None
    assert [front.answers[0].stored.id] == fittest and front.answers[0].stored.rewards == (0.6, 0.7)


def test_one_objective_has_no_front(tmp_path):
    assert read(tmp_path, (Objective("gold"),), {"a": [(0.0,), (0.5,)]})[0] is None


def test_a_large_front_keeps_what_is_best_under_fixed_weightings():
    turns = np.linspace(0.0, np.pi / 2, 2001)
    child = fronts.CandidateSummary(0, 0.0, (0.0, 0.0), iteration=0)
    circle = [
        fronts.FrontAnswer(0, None, replace_child(child, at, (float(np.cos(x)), float(np.sin(x)))))
        for at, x in enumerate(turns)
    ]
    assert len(fronts._undominated(circle)) == 2001
    few = fronts._best_under_some(circle, 100)
    kept = np.array([one.stored.rewards for one in few])
    assert 50 < len(few) <= 100 and {0, 2000} < {one.stored.id for one in few}
    weights = np.random.default_rng(0).dirichlet([1, 1], 500)
    best = np.max(np.array([one.stored.rewards for one in circle]) @ weights.T, axis=0)
    assert np.max(best - np.max(kept @ weights.T, axis=0)) < 0.001


def replace_child(child, id, rewards):
    return replace(child, id=id, rewards=rewards, fitness=sum(rewards) / 2)


def test_the_command_and_the_front_choose_the_same_answer_under_weights(tmp_path, capsys):
    """Of equal answers each has one that is as good."""
    address, draw = f"sqlite:///{tmp_path / 'evo.db'}", np.random.default_rng(5)
    arms = {arm: [tuple(map(float, row)) for row in draw.random((40, 2)).round(3)] for arm in ("a", "b")}
    arms["a"] += [(1.0, 0.2), (1.0, 0.7)]
    store_vectors(address, "c", PLAIN, arms)
    with Store.open(address, read_only=True) as store:
        progress = Progress.open(store, "c")
        front = fronts.front_of(progress.comparison.problems[0], progress.read_valid(0))
        for gold, wood in ((3, 1), (1, 3), (0, 1), (1, 9), (1, 0)):
            command = ("best", "c", "--db", address, "--weights", f"gold={gold},wood={wood}", "--json")
            (best,) = json.loads(evo(capsys, *command)[1])
            rewards = tuple(best["rewards"].values())
            same = best_under(front, (gold, wood)).stored
            assert same.id == best["candidate"] or ((gold, wood) == (1, 0) and same.rewards[0] == rewards[0])
        assert (rewards, same.rewards) == ((1.0, 0.2), (1.0, 0.7))
