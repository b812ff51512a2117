import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vpo.scalarize import dirichlet_weights, set_rewards

unit = st.floats(0, 1, width=32)


def groups():
    return st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)).flatmap(
        lambda shape: st.tuples(
            arrays(np.float64, shape, elements=unit), arrays(np.bool_, shape[:2]), st.integers(0, 2**32 - 1)
        )
    )


def weights_for(rewards, seed, count=64):
    return dirichlet_weights(count, rewards.shape[2], seed=seed)


@pytest.mark.parametrize("sampler", ["iid", "sobol"])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_weights_have_the_moments_of_the_dirichlet(sampler, alpha):
    d = 4
    w = dirichlet_weights(1 << 14, d, alpha=alpha, sampler=sampler, seed=1)
    assert w.min() >= 0
    assert np.allclose(w.sum(axis=1), 1)
    assert np.allclose(w.mean(axis=0), 1 / d, atol=0.01)
    assert np.allclose(w.var(axis=0), (1 / d) * (1 - 1 / d) / (d * alpha + 1), rtol=0.06)
    assert np.allclose(np.cov(w.T)[0, 1], -(1 / d**2) / (d * alpha + 1), rtol=0.1)


@pytest.mark.parametrize("sampler", ["iid", "sobol"])
def test_weights_follow_their_seed(sampler):
    one, same, other = (dirichlet_weights(50, 3, seed=s, sampler=sampler) for s in (7, 7, 8))
    assert (one == same).all()
    assert (one != other).any()


def test_sobol_has_less_variance_than_iid_at_equal_k():
    rewards, valid = np.random.default_rng(0).random((1, 5, 4)), np.ones((1, 5), bool)
    spread = {
        sampler: np.std(
            [set_rewards(rewards, valid, dirichlet_weights(100, 4, seed=s, sampler=sampler)) for s in range(60)]
        )
        for sampler in ("iid", "sobol")
    }
    assert spread["sobol"] < spread["iid"] / 2


def test_two_specialists_are_worth_the_mean_of_their_better_side():
    # max(u, 1 - u) over u uniform on [0, 1] has mean 3/4; of three uniform weights the larger of two has mean 1/2
    for specialists, expected in (([[1, 0], [0, 1]], 0.75), ([[1, 0, 0], [0, 1, 0]], 0.5)):
        weights = dirichlet_weights(1 << 14, len(specialists[0]), seed=0)
        assert set_rewards([specialists], [[True, True]], weights) == pytest.approx([expected], abs=2e-3)


def test_set_reward_by_hand():
    rewards = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.9, 0.9]]]
    weights = [[1.0, 0.0], [0.5, 0.5]]
    assert set_rewards(rewards, [[True, True], [True, False]], weights) == pytest.approx([0.75, 0.5])


@pytest.mark.parametrize(
    ("rewards", "valid", "weights"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), np.ones((1, 3))),
        (np.ones((2, 3, 4)), np.ones((2, 2)), np.ones((1, 4))),
        (np.ones((2, 3, 4)), np.ones((2, 3)), np.ones((1, 3))),
        (np.full((1, 1, 2), np.nan), np.ones((1, 1)), np.ones((1, 2))),
    ],
)
def test_what_does_not_fit_is_refused(rewards, valid, weights):
    with pytest.raises(ValueError):
        set_rewards(rewards, valid, weights)


def test_the_reward_of_what_is_not_valid_is_never_looked_at():
    rewards = np.array([[[0.5, 0.5], [np.nan, 1.0]]])
    assert set_rewards(rewards, [[True, False]], [[0.5, 0.5]]) == pytest.approx([0.5])


def test_a_group_with_no_answers_at_all_is_worth_nothing():
    assert set_rewards(np.zeros((3, 0, 2)), np.zeros((3, 0), bool), np.ones((4, 2))).tolist() == [0, 0, 0]


@settings(max_examples=60, deadline=None)
@given(groups())
def test_sets_are_worth_what_the_definition_says(case):
    """Weight by weight and answer by answer, with nothing vectorised."""
    rewards, valid, seed = case
    weights = weights_for(rewards, seed, count=16)
    counted = np.where(valid[..., None], rewards, 0.0)
    best = np.array([[max(float(w @ answer) for answer in answers) for w in weights] for answers in counted])
    assert np.allclose(set_rewards(rewards, valid, weights), best.mean(axis=1), rtol=1e-12, atol=1e-15)


def test_weights_that_are_not_finite_raise():
    rewards, valid = np.zeros((1, 1, 2)), np.ones((1, 1), bool)
    with pytest.raises(ValueError, match="weights hold"):
        set_rewards(rewards, valid, np.array([[np.nan, 0.5]]))
