"""From scored groups to examples: what a method sees, what is dropped, the scale of its advantages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.training_samples import scored_group, tokens

from problems.contract import Score
from problems.types import ScoredAnswer
from vpo.advantage import METHODS, advantages, normalise
from vpo.scalarize import dirichlet_weights, set_rewards
from vpo.training.examples import (
    Estimation,
    Goal,
    counted_fitness,
    example_group,
    group_advantages,
    group_rewards,
    whiten,
)
from vpo.training.trainer import group_metrics

RNG = np.random.default_rng(0)
PROMPT = tokens(RNG, 6)
THREE = [tokens(RNG, n) for n in (4, 7, 2)]
REWARDS = [[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.6]], [[0.2, 0.1], [0.1, 0.3]]]


def test_scalar_methods_see_the_fitness_and_vector_methods_the_vector() -> None:
    # fitness says the opposite of the vectors' mean
    fitness = [[0.1, 0.2], [0.5], [0.9, 0.7]]
    group = scored_group(PROMPT, THREE, REWARDS, fitness=fitness)
    np.testing.assert_allclose(
        group_advantages(group, Estimation(method="grpo")), normalise(np.array([0.1, 0.5, 0.9]), sample=True)
    )
    np.testing.assert_allclose(
        group_advantages(group, Estimation(method="multi_rlvr")), normalise(np.array([0.3, 0.5, 1.6]), sample=True)
    )
    seen = group_rewards(group, Estimation(method="vpo"))
    assert seen.rewards.shape == (3, 2, 2)
    np.testing.assert_array_equal(seen.rewards[0], REWARDS[0])
    np.testing.assert_array_equal(seen.valid, [[True, True], [True, False], [True, True]])
    expected = normalise(set_rewards(seen.rewards, seen.valid, seen.weights))
    np.testing.assert_allclose(group_advantages(group, Estimation(method="vpo")), expected)
    assert expected[0] > expected[1] > expected[2]


def test_official_gdpo_is_white_over_the_tokens_of_the_batch() -> None:
    estimation = Estimation(method="gdpo")
    groups = [scored_group(PROMPT, THREE, [one[:1] for one in some], answers=1) for some in (REWARDS, REWARDS[::-1])]
    made = [example for group in groups if (example := example_group(group, estimation))]
    spreadless = 5  # tokens of a group that was left out
    white = whiten(made, sum(example.tokens for example in made) + spreadless)
    before = np.concatenate([one.advantages for example in made for one in example.examples] + [np.zeros(spreadless)])
    expected = (before - before.mean()) / np.sqrt(before.var(ddof=1) + 1e-8)
    found = np.concatenate([one.advantages for example in white for one in example.examples])
    np.testing.assert_allclose(found, expected[:-spreadless], rtol=1e-5)
    assert found.dtype == np.float32


def test_weights_are_seeded_by_the_run_and_the_groups_place() -> None:
    def weights(seed: int = 5, sequence: int = 0, problem: int = 1, **settings) -> np.ndarray:
        group = scored_group(PROMPT, THREE, REWARDS, sequence=sequence, problem=problem)
        return group_rewards(group, Estimation(method="vpo", seed=seed, **settings)).weights

    np.testing.assert_array_equal(weights(), weights())
    others = [weights(seed=6), weights(sequence=1), weights(problem=2), weights(alpha=0.3), weights(sampler="iid")]
    assert all(not np.array_equal(weights(), other) for other in others)
    assert weights(weightings=17).shape == (17, 2)
    np.testing.assert_array_equal(
        weights(), dirichlet_weights(100, 2, seed=np.random.default_rng([5, 1, 0]), sampler="sobol")
    )

    def taste(sequence: int) -> np.ndarray:
        return group_rewards(scored_group(PROMPT, THREE, REWARDS, sequence=sequence), Estimation(method="gdpo")).taste

    assert taste(0).sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(taste(0), taste(0))
    assert not np.array_equal(taste(0), taste(1))


def test_a_rollout_without_answers_is_blamed_and_one_without_tokens_left_out() -> None:
    group = scored_group(PROMPT, [*THREE, np.zeros(0, np.int32)], [[[1.0, 1.0]], [], [[0.5, 0.5]], []], answers=3)
    example = example_group(group, Estimation(method="vpo"))
    assert example is not None
    assert [len(row.token_ids) for row in example.examples] == [4, 7, 2]
    assert example.tokens == 13
    first, none, middle = (row.advantages for row in example.examples)
    assert first.shape == (4,) and len(set(first)) == 1
    assert first[0] > middle[0] > none[0]
    # the rollout that sampled nothing is left out of the group's mean too: the others are 1, 0 and 1/2
    np.testing.assert_allclose([first[0], none[0], middle[0]], [1.5**0.5, -(1.5**0.5), 0.0], rtol=1e-5, atol=1e-6)


def test_a_reply_that_never_came_changes_nothing_for_the_others() -> None:
    rewards = [[[0.2]], [[0.6]], [[1.0]]]
    lost = np.zeros(0, np.int32)
    for method in ("vpo", "grpo", "maxrl", "max_at_k", "multi_rlvr", "gdpo"):
        came = group_advantages(scored_group(PROMPT, THREE, rewards), Estimation(method=method))
        with_lost = scored_group(PROMPT, [THREE[0], lost, *THREE[1:]], [rewards[0], [], *rewards[1:]])
        assert group_advantages(with_lost, Estimation(method=method)).tolist() == [came[0], 0.0, *came[1:]], method


LOSSES = [[[-1.0, -1.0]] * count for count in range(4)]  # chains of none to three answers, all of them alike
FOUR = [*THREE, tokens(RNG, 5)]


@pytest.mark.parametrize("method", ["vpo", "multi_rlvr"])
def test_answers_of_a_loss_are_not_worth_less_than_none(method: str) -> None:
    group = scored_group(PROMPT, FOUR, LOSSES, answers=3)
    assert group_advantages(group, Estimation(method=method)).tolist() == [0, 0, 0, 0]
    better = [[], [[-3.0, -3.0]], [[-3.0, -3.0], [-1.0, -1.0]], [[-1.0, -1.0], [-3.0, -3.0], [-3.0, -3.0]]]
    none, worst, *good = group_advantages(scored_group(PROMPT, FOUR, better, answers=3), Estimation(method=method))
    assert none == worst < min(good) and good[0] == good[1]  # a missing answer is worth -3


@pytest.mark.parametrize("method", ["grpo", "max_at_k", "gdpo", "random_weighting"])
@pytest.mark.parametrize("kind", ["missing", "failed"])
def test_an_answer_that_is_missing_or_fails_is_worth_the_least_of_its_group(method: str, kind: str) -> None:
    group = scored_group(PROMPT, FOUR, [[], [[-1.0]], [[-2.0]], [[-3.0]]], answers=1)
    if kind == "failed":
        failed = ScoredAnswer("x", b"x" * 16, Score.failure(1, "it crashes"))
        group = replace(group, rollouts=(replace(group.rollouts[0], answers=(failed,)), *group.rollouts[1:]))
    none, first, second, third = group_advantages(group, Estimation(method=method))
    assert none == third <= second < first
    if method == "grpo":  # of -3, -1, -2, -3 the mean is -9/4, the variance 11/12
        expected = np.array([-0.75, 1.25, 0.25, -0.75]) / (11 / 12) ** 0.5
        np.testing.assert_allclose([none, first, second, third], expected, rtol=1e-5)


def test_a_failed_answer_solves_nothing_where_the_goal_is_below_0() -> None:
    group = scored_group(PROMPT, FOUR, [[[-0.5]], [[-2.0]], [[-3.0]], []], answers=1)
    failed = ScoredAnswer("x", b"x" * 16, Score.failure(1, "it crashes"))
    group = replace(group, rollouts=(*group.rollouts[:3], replace(group.rollouts[3], answers=(failed,))))
    found = group_advantages(group, Estimation(method="pass_at_k", reward="solve"), Goal(-1.0))
    assert found[0] > 0 > found[1] == found[2] == found[3]


def test_the_metrics_count_a_missing_answer_as_training_does() -> None:
    group = scored_group(PROMPT, THREE, [[[-1.0]], [[-3.0], [-2.0]], []], answers=2)
    assert counted_fitness(group).tolist() == [[-1, -3], [-3, -2], [-3, -3]]
    metrics = group_metrics([group], [group], [])
    assert (metrics["fitness"], metrics["best_of_rollout"]) == (pytest.approx(-15 / 6), pytest.approx(-6 / 3))


def test_vectors_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="an answer has 1 rewards where others have 2"):
        group_advantages(scored_group(PROMPT, THREE, [[[1.0, 2.0]], [[1.0]], []]), Estimation(method="vpo"))


def test_an_example_carries_prompt_behaviour_and_temperature() -> None:
    behaviour = [-RNG.random(len(ids)) for ids in THREE]
    group = scored_group(PROMPT, THREE, REWARDS, behaviour=behaviour, temperature=0.7)
    example = example_group(group, Estimation(method="vpo"))
    assert example is not None
    np.testing.assert_array_equal(example.prompt_ids, PROMPT)
    assert example.temperature == 0.7
    for row, ids, recorded in zip(example.examples, THREE, behaviour, strict=True):
        np.testing.assert_array_equal(row.token_ids, ids)
        np.testing.assert_allclose(row.behaviour, recorded, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_groups_of_any_number_of_objectives_and_answers(method: str) -> None:
    rng = np.random.default_rng(1)
    for d, sizes in ((1, (1, 1, 1)), (2, (3, 0, 1)), (5, (2, 4, 1))):
        rewards = [rng.random((m, d)).tolist() for m in sizes]
        group = scored_group(PROMPT, THREE, rewards, answers=2)  # one wrote more answers than were asked for
        found = group_advantages(group, Estimation(method=method))
        assert found.shape == (3,)
        assert np.isfinite(found).all() and (found.any() or method.endswith("pass_at_k"))  # which need goals
        np.testing.assert_array_equal(found, advantages(method, group_rewards(group, Estimation(method=method))))
