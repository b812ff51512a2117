"""The clipped loss by hand-worked values."""

from __future__ import annotations

import math

import pytest
import torch

from vpo.training.loss import LossConfig, k3, policy_loss


def one_token(ratio: float, advantage: float, config: LossConfig, **others: float) -> tuple[float, float, dict]:
    """Loss of one token of weight 1 whose policy is `ratio` times the behaviour policy's 0.5, its derivative with
    respect to the log-probability, and the figures."""
    logprob = torch.tensor([math.log(0.5 * ratio)], requires_grad=True)
    loss, metrics = policy_loss(
        logprob,
        torch.tensor([math.log(0.5)]),
        torch.tensor([advantage]),
        1.0,
        config,
        **{name: torch.tensor([math.log(value)]) for name, value in others.items()},
    )
    loss.backward()
    assert logprob.grad is not None
    return loss.item(), logprob.grad.item(), {name: value.item() for name, value in metrics.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope", "clipped"),
    [
        (1.0, 2.0, -2.0, -2.0, 0),  # inside: the loss is -ratio A, its slope in log pi the same
        (1.05, 2.0, -2.1, -2.1, 0),
        (1.5, 2.0, -2.4, 0.0, 1),  # good and already likelier by more than the bound: no further
        (0.5, 2.0, -1.0, -1.0, 0),  # good but less likely: never clipped
        (0.5, -2.0, 1.6, 0.0, 1),  # bad and already less likely by more than the bound: no further
        (1.5, -2.0, 3.0, 3.0, 0),  # bad but likelier: never clipped
        (0.95, -2.0, 1.9, 1.9, 0),
    ],
)
def test_the_clip_binds_on_its_own_side(ratio, advantage, loss, slope, clipped) -> None:
    found = one_token(ratio, advantage, LossConfig(kl=0.0))
    assert found[0] == pytest.approx(loss, rel=1e-5)
    assert found[1] == pytest.approx(slope, rel=1e-5, abs=1e-9)
    assert found[2]["clipped"] == clipped
    assert found[2]["ratio"] == pytest.approx(ratio, rel=1e-5)
    assert found[2]["behaviour_kl"] == pytest.approx(-math.log(ratio), abs=1e-6)


def test_truncation_caps_what_stale_tokens_weigh() -> None:
    config = LossConfig(kl=0.0, truncate=1.5)
    # the policy is where the step began, so its own ratio is 1 and policy / behaviour is the weight
    loss, slope, metrics = one_token(1.2, 2.0, config)
    assert (loss, slope) == (pytest.approx(-2.4, rel=1e-5), pytest.approx(-2.4, rel=1e-5))
    assert metrics["ratio"] == pytest.approx(1.0)
    # policy / behaviour = 4 counts as 1.5; 0.25 counts as it is
    assert one_token(4.0, 2.0, config)[0] == pytest.approx(-3.0, rel=1e-5)
    assert one_token(0.25, 2.0, config)[0] == pytest.approx(-0.5, rel=1e-5)


def test_figures_tell_how_far_the_policy_is_from_what_sampled() -> None:
    behaviour = torch.tensor([0.5, 0.5, 0.5, 0.2]).log()
    logprobs = torch.tensor([0.5, 0.25, 0.75, 0.8]).log().requires_grad_()
    nothing = torch.zeros(4)
    for truncate, share in ((None, 0.0), (5.0, 0.0), (2.0, 0.25), (1.2, 0.5)):
        _, metrics = policy_loss(logprobs, behaviour, nothing, 0.25, LossConfig(kl=0.0, truncate=truncate))
        assert metrics["importance"].item() == pytest.approx((1 + 0.5 + 1.5 + 4) / 4)
        assert metrics["truncated"].item() == share
        assert metrics["log_ratio"].item() == pytest.approx((math.log(2) + math.log(1.5) + math.log(4)) / 4)


@pytest.mark.parametrize(
    ("ratio", "advantage", "slope"),
    [
        (1.1, 2.0, -2.2),  # within the bounds: weighed by policy / behaviour
        (1.5, 2.0, 0.0),  # good, and already likelier than what sampled it by more than the bound
        (0.5, 2.0, -1.0),  # good and less likely
        (0.5, -2.0, 0.0),  # bad, and already given up
        (1.5, -2.0, 3.0),  # bad and likelier
        (9.0, -2.0, 4.0),  # the weight is capped at 2
    ],
)
def test_trust_keeps_the_clip_around_what_sampled(ratio: float, advantage: float, slope: float) -> None:
    held, loose = LossConfig(kl=0.0, truncate=2.0, trust=True), LossConfig(kl=0.0, truncate=2.0)
    _, found, metrics = one_token(ratio, advantage, held)
    assert found == pytest.approx(slope, rel=1e-5)
    assert metrics["clipped"] == float(slope == 0)
    assert one_token(ratio, advantage, loose)[1] != 0  # the first update of a step is on its own anchor


def test_k3_is_never_negative_zero_at_the_reference_and_slopes_as_derived() -> None:
    reference = torch.linspace(-6, -0.01, 41)
    policy = torch.full_like(reference, -1.0).requires_grad_()
    values = k3(policy, reference)
    assert (values >= 0).all()
    assert k3(reference, reference).abs().max() == 0
    values.sum().backward()
    # d/dlogp of r - 1 - log r with r = exp(ref - logp) is 1 - r
    torch.testing.assert_close(policy.grad, 1 - (reference + 1.0).exp())
    half = k3(torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)])).item()
    assert half == pytest.approx(0.5 - 1 - math.log(0.5), rel=1e-5)
    # its mean over the policy's own tokens is the divergence
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.2, 0.5, 0.3])
    assert (p * k3(p.log(), q.log())).sum().item() == pytest.approx((p * (p / q).log()).sum().item(), rel=1e-5)


def test_the_kl_term_is_added_with_its_coefficient_and_weight() -> None:
    config = LossConfig(kl=0.3)
    logprobs = torch.tensor([-1.0, -2.0], requires_grad=True)
    reference = torch.tensor([-1.5, -1.0])
    loss, metrics = policy_loss(logprobs, logprobs.detach(), torch.zeros(2), 0.25, config, reference=reference)
    expected = 0.25 * (math.exp(-0.5) - 0.5) + 0.25 * (math.exp(1.0) - 2.0)
    assert metrics["kl"].item() == pytest.approx(expected, rel=1e-5)
    assert loss.item() == pytest.approx(0.3 * expected, rel=1e-5)
    loss.backward()
    torch.testing.assert_close(
        logprobs.grad, 0.3 * 0.25 * (1 - torch.tensor([math.exp(-0.5), math.exp(1.0)])), atol=1e-6, rtol=0
    )
    with pytest.raises(ValueError, match="reference"):
        policy_loss(logprobs, logprobs.detach(), torch.zeros(2), 0.25, config)


def test_a_token_that_one_policy_rules_out_does_not_overflow() -> None:
    for ratio in (1e-30, 1e30):
        for advantage in (-1.0, 1.0):
            loss, slope, metrics = one_token(ratio, advantage, LossConfig(kl=0.1, truncate=2.0), reference=1e-30)
            assert all(math.isfinite(value) for value in (loss, slope, *metrics.values()))
