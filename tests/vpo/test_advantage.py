import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vpo.advantage import METHODS, GroupRewards, advantages, normalise, whitening
from vpo.scalarize import dirichlet_weights, reachable_goals, with_floor
from vpo.training import TrainingStopped

unit = st.floats(0, 1, width=16)
shapes = st.tuples(st.integers(2, 6), st.integers(1, 4), st.integers(1, 4))
rewards_and_valid = shapes.flatmap(
    lambda s: st.tuples(arrays(np.float64, s, elements=unit), arrays(np.bool_, s[:2]), st.integers(0, 99))
)


def group_of(rewards, valid=None, seed=0):
    d = np.shape(rewards)[2]
    weights = dirichlet_weights(32, d, seed=seed)
    return GroupRewards.of(rewards, valid, weights=weights, taste=weights[0])


def single(*scalars):
    return GroupRewards.of(np.array(scalars, dtype=float)[:, None, None])


@pytest.mark.parametrize(
    ("method", "scalars", "expected"),
    [
        ("grpo", (0, 1, 2, 3), np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(5 / 3)),
        # the authors' code divides VPO by the population deviation (1/2), the baselines by the sample's (1/sqrt 3)
        ("grpo", (0, 0, 1, 1), np.array([-1, -1, 1, 1]) * 0.75**0.5),
        ("vpo", (0, 0, 1, 1), [-1, -1, 1, 1]),
        ("maxrl", (0, 0, 0, 1), [-1, -1, -1, 3]),
        ("maxrl", (0, 0, 0), [0, 0, 0]),
    ],
)
def test_single_answers_by_hand(method, scalars, expected):
    assert advantages(method, single(*scalars)) == pytest.approx(expected, rel=1e-4)


def official_max_at_k(r):
    """The estimator as its authors state it: by subsets, then the group's mean and sample deviation."""
    n = len(r)
    k = max(2, n // 2)
    subsets = list(itertools.combinations(range(n), k))
    raw = np.array([sum(max(r[list(s)]) for s in subsets if i in s) / len(subsets) for i in range(n)])
    return (raw - raw.mean()) / (raw.std(ddof=1) + 1e-6)


@pytest.mark.parametrize("n", [3, 4, 5, 8])
@pytest.mark.parametrize("digits", [1, 6])
def test_official_max_at_k_by_subsets(n, digits):
    r = np.round(np.random.default_rng(n).random(n), digits)  # one digit: with ties
    assert advantages("max_at_k", single(*r)) == pytest.approx(official_max_at_k(r), abs=1e-9)


def test_official_gdpo_by_hand():
    rewards = np.random.default_rng(0).random((2, 4, 1, 3))  # two groups of four rollouts, three objectives
    tokens = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    per_objective = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, ddof=1, keepdims=True) + 1e-6)
    token_sums = np.repeat(per_objective.sum(-1).ravel(), tokens)
    expected = (token_sums - token_sums.mean()) / np.sqrt(token_sums.var(ddof=1) + 1e-8)

    mine = np.repeat(np.concatenate([advantages("gdpo", GroupRewards.of(group)) for group in rewards]), tokens)
    mean, divisor = whitening(len(mine), mine.sum(), mine @ mine)
    assert (mine - mean) / divisor == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="cannot be whitened"):
        whitening(1, 0.5, 0.25)


def test_multi_rlvr_sums_and_vpo_takes_the_best():
    rewards = np.array([[[0.6, 0.6], [0.6, 0.6]], [[1.0, 0.0], [0.0, 1.0]]])
    group = group_of(rewards)
    assert advantages("multi_rlvr", group)[0] > 0
    assert advantages("vpo", group)[1] > 0, "two specialists beat two equal generalists"


@given(case=rewards_and_valid)
def test_shape_finiteness_and_permutation(case):
    rewards, valid, seed = case
    group = group_of(rewards, valid, seed)
    order = np.random.default_rng(seed).permutation(len(rewards))
    permuted = group_of(rewards[order], valid[order], seed)
    for method in METHODS:
        a = advantages(method, group)
        assert a.shape == rewards.shape[:1], method
        assert np.isfinite(a).all(), method
        assert np.allclose(advantages(method, permuted), a[order], atol=1e-6), method


@pytest.mark.parametrize("method", METHODS)
def test_a_group_without_spread_teaches_nothing(method):
    a = advantages(method, group_of(np.full((4, 2, 3), 0.5)))
    assert (a == 0).all()
    assert (advantages(method, group_of(np.full((4, 2, 3), 0.5), np.zeros((4, 2), bool))) == 0).all()


@given(case=rewards_and_valid)
def test_one_collinear_objective_reduces_vpo_to_the_scalars_ranking(case):
    rewards, valid, seed = case
    collinear = np.repeat(rewards[:, :1, :1], 3, axis=2)  # one answer, equal objectives: w.r is the scalar for every w
    group = group_of(collinear, valid[:, :1], seed)
    assert np.allclose(advantages("vpo", group), normalise(group.first.mean(axis=1)), atol=1e-5)


def test_only_single_answer_methods_look_at_the_first_answer_alone():
    rewards = np.random.default_rng(0).random((5, 3, 2))
    changed = rewards.copy()
    changed[:, 1:] = np.random.default_rng(1).random((5, 2, 2))
    for name, method in METHODS.items():
        if name == "vpo_pass_at_k":
            continue  # without goals it teaches nothing
        same = np.allclose(advantages(name, group_of(rewards)), advantages(name, group_of(changed)))
        assert same == (not method.chain), name


ANY_REWARD = ("grpo", "max_at_k", "gdpo", "random_weighting", "multi_rlvr", "vpo", "pass_at_k")
"""Methods that a constant added to all rewards does not change. MaxRL divides by the mean."""
# sums of these are exact, so that equal rewards stay equal after the constant is added
eighths = st.integers(-64, 64).map(lambda n: n / 8)
any_rewards = shapes.flatmap(
    lambda s: st.tuples(
        arrays(np.float64, s, elements=eighths), arrays(np.bool_, s[:2]), arrays(np.bool_, s[:2]), st.integers(0, 99)
    )
)


def of_any(rewards, valid, failed, solved, seed):
    weights = dirichlet_weights(32, rewards.shape[2], seed=seed)
    return GroupRewards.of(rewards, valid, failed=failed, weights=weights, taste=weights[0], solved=solved)


@given(case=any_rewards, constant=st.integers(-200, 200))
def test_a_constant_added_to_all_rewards_changes_no_advantage(case, constant):
    rewards, _, solved, seed = case
    every, none = np.ones_like(solved), np.zeros_like(solved)
    plain, moved = (of_any(r, every, none, solved, seed) for r in (rewards, rewards + constant))
    for method in ANY_REWARD:
        assert np.allclose(advantages(method, moved), advantages(method, plain), atol=1e-5), method


@given(case=any_rewards, below=st.integers(8, 200))
def test_nor_does_it_where_answers_are_missing_and_the_floor_moves_with_the_others(case, below):
    rewards, valid, failed, seed = case
    valid[0, 0], failed[0, 0] = True, False  # without any answer the floor is 0
    lost = ~valid | failed
    rewards[lost] = 0  # as failed answers score
    none = np.zeros_like(valid)
    plain = of_any(np.where(lost[..., None], 0, rewards - 8), valid, failed, none, seed)  # all at most 0
    moved = of_any(np.where(lost[..., None], 0, rewards - 8 - below), valid, failed, none, seed)
    for method in ANY_REWARD:
        assert np.allclose(advantages(method, moved), advantages(method, plain), atol=1e-5), method


@given(case=any_rewards)
def test_the_order_is_never_turned_round(case):
    """Rollouts that are at least as good in every answer have at least the advantage, and no answer is worth less than
    one that is missing or failed."""
    rewards, valid, failed, seed = case
    rewards[failed] = 0  # as failed answers score
    counted = with_floor(rewards, valid, failed)
    sound = valid & ~failed
    if sound.any():
        assert counted[~sound].max(initial=-np.inf) <= max(counted[sound].min(), 0)
        assert (counted[~sound] <= counted[sound].min(axis=0)).all()
    group = of_any(rewards, valid, failed, np.zeros_like(valid), seed)
    for method in ("grpo", "max_at_k", "random_weighting", "multi_rlvr", "vpo", "gdpo"):
        found = advantages(method, group)
        for i, j in itertools.permutations(range(len(found)), 2):
            seen = slice(None) if METHODS[method].chain else slice(0, 1)
            if (counted[i, seen] >= counted[j, seen]).all():
                assert found[i] >= found[j] - 1e-9, method


@given(case=rewards_and_valid)
def test_rewards_from_0_on_are_as_they_were(case):
    """With a missing answer worth 0, bit for bit."""
    rewards, valid, seed = case
    assert (with_floor(rewards, valid) == np.where(valid[..., None], rewards, 0.0)).all()
    assert (with_floor(rewards, valid, np.ones_like(valid)) == np.where(valid[..., None], rewards, 0.0)).all()
    zeroed = np.where(valid[..., None], rewards, 0.0)
    every = np.ones_like(valid)
    for method in ("grpo", "max_at_k", "maxrl", "gdpo", "random_weighting", "multi_rlvr", "vpo"):
        mine, plain = group_of(rewards, valid, seed), group_of(zeroed, every, seed)
        assert (advantages(method, mine) == advantages(method, plain)).all(), method


@pytest.mark.parametrize("rewards", [(-4, -3, -2, -1), (-1, 0.99999), (-0.5, 3)])
def test_maxrl_refuses_rewards_below_0(rewards):
    with pytest.raises(TrainingStopped, match="maxrl divides by the group's mean reward and takes no reward below 0"):
        advantages("maxrl", single(*rewards))
    assert not advantages("maxrl", single(-1, -1)).any()


def goals_of(solved, k=0):
    """Single answers of which some solve their problem."""
    return GroupRewards.of(np.zeros((len(solved), 1, 1)), solved=np.array(solved, dtype=bool)[:, None], pass_at=k)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_pass_at_k_points_along_the_gradient_of_pass_at_k(k):
    """In expectation over groups its inner product with the score is that of 1 - (1 - p)^k up to one factor, for any p
    (the estimate by the group's own mean is exact as the group grows)."""
    rng, n, estimates = np.random.default_rng(0), 4000, []
    for p in (0.02, 0.1, 0.5):
        solved = (rng.random(n) < p).astype(float)
        found = advantages("pass_at_k", goals_of(solved, k))
        estimates.append(
            (found * (solved - p)).mean() / (p * (1 - p) * n * (1 - p) ** (k - 1) / (1 - 1 / n) ** (k - 1))
        )
    assert estimates == pytest.approx([1, 1, 1], rel=0.15 if k < 50 else 0.6)


def test_pass_at_k_counts_a_rare_success_most():
    once = advantages("pass_at_k", goals_of([1, 0, 0, 0, 0, 0], 6))
    thrice = advantages("pass_at_k", goals_of([1, 1, 1, 0, 0, 0], 6))
    assert once[0] == pytest.approx(5) and thrice[0] < once[0] / 5
    assert (
        not advantages("pass_at_k", goals_of([1, 1, 1])).any() and not advantages("pass_at_k", goals_of([0, 0])).any()
    )


def test_vpo_pass_at_k_pays_under_the_weights_that_are_still_to_be_reached():
    corners = np.eye(2)
    goals = reachable_goals(corners, ended=[[0.9, 0.2], [0.1, 0.8]], archive=[[0.9, 0.0]])
    assert goals.tolist() == [np.inf, 0.8]  # the first corner's goal is in the archive
    rewards = np.array([[[1.0, 0.0]], [[0.0, 0.8]], [[0.5, 0.7]], [[0.0, 0.0]]])
    solved = np.array([[False], [False], [True], [False]])
    group = GroupRewards.of(rewards, weights=corners, goals=goals, solved=solved)
    best, reached, other, none = advantages("vpo_pass_at_k", group)
    assert other > reached > best == none  # what solves the problem succeeds under both weights
    alone = GroupRewards.of(rewards, weights=corners, goals=goals)
    assert advantages("vpo_pass_at_k", alone).argmax() == 1
    assert advantages("vpo", alone).argmax() == 1


def test_a_chain_reaches_a_goal_by_any_of_its_answers_and_an_empty_one_by_none():
    goals = np.array([0.5])
    rewards = np.array([[[0.1], [0.6]], [[0.9], [0.0]], [[0.1], [0.2]]])
    valid = np.array([[True, True], [False, False], [True, True]])
    found = advantages("vpo_pass_at_k", GroupRewards.of(rewards, valid, goals=goals))
    assert found[0] > 0 > found[1] == found[2]


def test_what_makes_no_group_is_refused():
    with pytest.raises(ValueError, match="there is grpo"):
        advantages("ppo", single(0, 1))
    with pytest.raises(ValueError, match="rewards must be"):
        GroupRewards.of(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="weights must be"):
        GroupRewards.of(np.zeros((3, 1, 2)), weights=np.ones((4, 3)))
    for row in np.array([[np.nan, 0.5], [np.inf, 0.5]]):
        for name, value in (("weights", row[None]), ("taste", row)):
            with pytest.raises(ValueError, match=f"{name} holds a number that is not finite"):
                GroupRewards.of(np.zeros((2, 1, 2)), **{name: value})
