"""From scored groups to examples: what a method sees, what is dropped, the scale of its advantages."""

from __future__ import annotations

import numpy as np
import pytest
from support.training_samples import scored_group, tokens

from vpo.advantage import METHODS, advantages, normalise
from vpo.scalarize import dirichlet_weights, set_rewards
from vpo.training.examples import Estimation, example_group, group_advantages, group_rewards, whiten

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
    assert weights(weights=17).shape == (17, 2)
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
    # the rollout that sampled nothing still stands in the group's mean
    np.testing.assert_allclose([first[0], none[0], middle[0]], normalise(np.array([1.0, 0.0, 0.5, 0.0]))[:3], rtol=1e-5)


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
