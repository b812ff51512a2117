"""Trajectory balance: the loss by hand, the gradient that it stands for, and the distribution that it ends at."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from test_preference import moved
from training_samples import gradients, logprobs_of, random_groups, relative_error, scored_group, tiny_model, tokens

from vpo.scalarize import set_rewards
from vpo.training.config import TrainConfig
from vpo.training.examples import group_rewards
from vpo.training.loss import balance_loss
from vpo.training.trainer import PolicyTrainer

BETA = 0.2
CONFIG = TrainConfig(method="trajectory_balance", beta=BETA, lr=1e-3, grad_clip=1e9, precision="fp32")
START = torch.tensor([0.5, 0.3, 0.2]).log()
REWARDS = torch.tensor([0.1, 0.4, 0.5])


def loss_of(logits: torch.Tensor, drawn: list[int]) -> torch.Tensor:
    """The loss of one group of these outcomes of one token, each of weight 1."""
    rewards = REWARDS[drawn]
    logprobs = logits.log_softmax(0)[drawn]
    ones = torch.ones(len(drawn))
    return balance_loss(logprobs, START[drawn], rewards - rewards.mean(), [1] * len(drawn), [len(drawn)], ones, BETA)[0]


@pytest.mark.parametrize("budget", [16384, 12])  # 12 holds no group: it must stay whole all the same
@pytest.mark.parametrize("aggregation", ["token", "sequence"])
def test_a_step_takes_the_gradient_of_the_residuals_as_written_down(budget: int, aggregation: str) -> None:
    reference = tiny_model()
    model = moved(reference)
    groups = random_groups(model, 3)
    groups.append(
        scored_group(tokens(np.random.default_rng(9), 4), [groups[0].rollouts[0].rollout.token_ids] * 2, [[], []])
    )
    config = CONFIG.model_copy(update={"token_budget": budget, "aggregation": aggregation})
    rollouts = [rollout.rollout for group in groups for rollout in group.rollouts]
    total = sum(len(r.token_ids) for r in rollouts) if aggregation == "token" else len(rollouts)
    losses = []
    for group in groups:
        made = group_rewards(group, config)
        rewards = set_rewards(made.rewards, made.valid, made.weights)
        residuals, counts = [], []
        for rollout, reward in zip([one.rollout for one in group.rollouts], rewards, strict=True):
            ours = logprobs_of(model, rollout.prompt_ids, rollout.token_ids).sum()
            theirs = logprobs_of(reference, rollout.prompt_ids, rollout.token_ids).sum().detach()
            residuals.append(ours - theirs - reward / BETA)
            counts.append(1 if aggregation == "token" else len(rollout.token_ids))
        mean = torch.stack(residuals).mean().detach()
        losses += [BETA / 2 * (r - mean) ** 2 / (total * n) for r, n in zip(residuals, counts, strict=True)]
    expected = torch.stack(losses).sum()
    expected.backward()
    wanted = gradients(model)
    model.zero_grad(set_to_none=True)
    stats = PolicyTrainer(model, None, config, version="start", reference=reference).step(groups)
    found = gradients(model)
    assert stats.metrics["loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert max(relative_error(found[name], wanted[name]) for name in wanted) < 1e-3
    assert stats.metrics["spreadless"] == 0  # a group without spread goes back to the start


def test_in_expectation_it_climbs_the_reward_less_the_distance_from_the_start() -> None:
    logits = torch.tensor([0.3, -0.2, 0.5], requires_grad=True)
    policy = logits.log_softmax(0)
    objective = (policy.exp() * (REWARDS - BETA * (policy - START))).sum()
    (wanted,) = torch.autograd.grad(objective, logits)
    chances = logits.detach().softmax(0)
    for size in (2, 3):
        found = torch.zeros(3)
        for drawn in itertools.product(range(3), repeat=size):
            (gradient,) = torch.autograd.grad(loss_of(logits, list(drawn)), logits)
            found -= chances[list(drawn)].prod() * gradient
        torch.testing.assert_close(found / (size - 1), wanted, rtol=1e-4, atol=1e-6)


def test_it_ends_at_the_start_times_the_exponential_of_the_reward() -> None:
    logits = START.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.05)
    for _ in range(400):  # of rollouts that another policy drew: each outcome once
        optimizer.zero_grad()
        loss_of(logits, [0, 1, 2]).backward()
        optimizer.step()
    target = START.exp() * (REWARDS / BETA).exp()
    torch.testing.assert_close(logits.detach().softmax(0), target / target.sum(), rtol=1e-3, atol=1e-4)
