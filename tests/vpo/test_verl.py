"""veRL's side of VPO: reward function and estimators together are vpo.advantage's table, on veRL's own tensors.

What needs veRL itself is skipped without it. Its wheel asks for transformers below 5.11; `pip install --no-deps
verl==0.9.1` and what its core_algos imports is enough here.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from training_samples import random_groups, tiny_model

from vpo import verl
from vpo.training.config import Estimation
from vpo.training.examples import group_advantages

EXAMPLES = Path(__file__).parents[2] / "examples" / "verl"


def groups_of(method):
    groups = [replace(group, problem=0) for group in random_groups(tiny_model(), 5)]
    if verl.METHODS[method].chain:
        return groups
    # single answers: a rollout without one is worth nothing
    return [
        replace(group, rollouts=tuple(replace(one, answers=one.answers[:1]) for one in group.rollouts), answers=1)
        for group in groups
    ]


def tensors(method, groups, seed=3):
    """(token-level rewards, response mask, uid) as veRL's reward manager leaves them: the number at the last token,
    rows of all groups in one shuffled batch."""
    rows = [(group, one) for group in groups for one in group.rollouts]
    order = np.random.default_rng(0).permutation(len(rows))
    longest = max(len(one.rollout.token_ids) for _, one in rows)
    rewards, mask = torch.zeros(len(rows), longest), torch.zeros(len(rows), longest, dtype=torch.int64)
    uid = np.empty(len(rows), dtype=object)
    for place, i in enumerate(order):
        group, one = rows[i]
        length = len(one.rollout.token_ids)
        mask[place, :length] = 1
        rewards[place, length - 1] = verl.rollout_reward(method, one.answers, group.sequence, seed=seed)
        uid[place] = f"uid-{group.sequence}"
    return rewards, mask, uid, order


@pytest.mark.parametrize("method", verl.ESTIMATORS)
def test_advantages_are_those_of_the_table(method):
    groups = groups_of(method)
    rewards, mask, uid, order = tensors(method, groups)
    found, returns = verl.estimate(method, rewards, mask, uid)
    expected = np.concatenate([group_advantages(group, Estimation(method=method, seed=3)) for group in groups])[order]
    assert np.abs(expected).max() > 0.1
    torch.testing.assert_close(found, torch.from_numpy(expected).float()[:, None] * mask, atol=2e-5, rtol=1e-4)
    assert torch.equal(found, returns)


def test_weights_are_of_the_row_and_the_seed():
    (group,) = random_groups(tiny_model(), 1)
    answers = max((one.answers for one in group.rollouts), key=len)
    pairs = [(0, 0), (0, 1), (1, 0), (1, 1)]
    values = {pair: verl.rollout_reward("vpo", answers, pair[0], seed=pair[1]) for pair in pairs}
    assert len(set(values.values())) == 4
    assert verl.rollout_reward("vpo", answers, 1, seed=1) == values[1, 1]
    assert verl.rollout_reward("vpo", (), 0) == 0.0


def test_a_reward_function_reads_chains_and_scores_vectors():
    reward = verl.make_reward(
        "vpo", score=lambda truth, answer: (float(answer == truth), len(answer) / 10), parse=lambda text: text.split()
    )
    found = reward("any", "ab abcd ab abc x", "ab", {"index": 4})
    assert found["answers"] == 3 and found["fitness"] == pytest.approx((1.0 + 0.2) / 2)
    assert 0.4 < found["score"] < 1.0
    assert reward("any", "", "ab")["score"] == 0.0
    plain = verl.make_reward("maxrl", score=lambda truth, answer: (1.0, 0.0), parse=lambda text: text.split())
    assert plain("any", "first second", "ab")["score"] == 0.5


def test_a_problem_scores_by_its_address():
    problem = verl.problem_at("maze:test/0")
    reward = verl.make_reward("maxrl")
    found = reward("evo", problem.seed_answer(), "maze:test/0")
    assert found["score"] == pytest.approx(problem.score(problem.seed_answer()).fitness)


@pytest.mark.parametrize("method", ["gdpo", "per_answer", "archive_vpo", "nothing"])
def test_what_verl_cannot_be_given_is_refused(method):
    with pytest.raises(ValueError, match="for veRL; there is"):
        verl.make_reward(method)
    with pytest.raises(ValueError, match="single answers"):
        verl.make_reward("grpo", answers=3)


def test_without_verl_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "verl", None)
    monkeypatch.setitem(sys.modules, "verl.trainer.ppo.core_algos", None)
    with pytest.raises(ImportError, match=r"evo-search\[verl\]"):
        verl.register()


def test_the_example_names_what_there_is():
    config = yaml.safe_load((EXAMPLES / "config.yaml").read_text())
    assert config["algorithm"]["adv_estimator"] in map(verl.name_of, verl.ESTIMATORS)
    code = (EXAMPLES / "reward.py").read_text()
    space: dict[str, object] = {}
    exec(compile(code, "reward.py", "exec"), space)
    assert callable(space[config["reward"]["custom_reward_function"]["name"]])


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="veRL is not installed: pip install verl==0.9.1")
def test_inside_verl():
    """Registered by veRL itself as it is imported; called as compute_advantage calls; its own grpo agrees."""
    code = """
import numpy as np, torch
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from vpo import verl as ours
rewards, mask = torch.rand(12, 5), torch.ones(12, 5)
uid = np.array([f"u{i % 3}" for i in range(12)], dtype=object)
for method in ours.ESTIMATORS:
    fn = get_adv_estimator_fn(ours.name_of(method))
    advantages, returns = fn(token_level_rewards=rewards, response_mask=mask, index=uid, config=None)
    assert torch.equal(advantages, ours.estimate(method, rewards, mask, uid)[0]) and advantages.abs().max() > 0.1
mine = get_adv_estimator_fn("vpo_grpo")(token_level_rewards=rewards, response_mask=mask, index=uid)[0]
theirs = get_adv_estimator_fn("grpo")(token_level_rewards=rewards, response_mask=mask, index=uid)[0]
torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
print("agrees")
"""
    environment = {**os.environ, "VERL_USE_EXTERNAL_MODULES": "vpo.verl"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "agrees" in done.stdout, done.stderr[-2000:]
