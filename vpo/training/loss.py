"""The loss, over flat completion tokens: the clipped policy gradient with its two corrections.

All tensors are (N,), one entry for each completion token of a micro-batch, in nats where they are log-probabilities.
`weight` carries the normalisation of the whole optimiser step, so the losses of micro-batches add up to the loss of the
batch however it was cut.
"""

from __future__ import annotations

import torch

from vpo.training.config import LossConfig

LOSS_METRICS = ("ratio", "clipped", "behaviour_kl", "importance", "truncated", "log_ratio", "policy_nll")
"""What policy_loss always reports; `kl` too with a KL term."""

CLIP = 0.2
"""PPO's bound on the policy ratio, 1 - CLIP to 1 + CLIP (arXiv 1707.06347)."""
_LARGEST = 20.0
"""Bound on a difference of log-probabilities before it is exponentiated: e^20 is far beyond any clip."""


def policy_loss(
    logprobs: torch.Tensor,
    behaviour: torch.Tensor | None,
    advantages: torch.Tensor,
    weight: float,
    config: LossConfig,
    *,
    reference: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss, a scalar that carries gradient, and weighted sums of what a log shows.

    logprobs: of the policy that is trained, with gradient; behaviour: of the policy that sampled, as recorded; None
        if nothing sampled the tokens, and it is taken to be the present one: with advantages of 1 that is maximum
        likelihood
    weight: of each token
    reference: of the reference policy, needed where config.kl > 0
    Returns sums over tokens of weight x (ratio, clipped, kl, behaviour_kl = k1 of behaviour || policy; and of how far
    the sampled tokens are from the policy: importance = policy / behaviour before any cap, truncated = whether the cap
    took some of it, log_ratio = its size in nats), and policy_nll = -logprobs.
    """
    behaviour = logprobs.detach() if behaviour is None else behaviour
    difference = logprobs.detach() - behaviour
    raw = difference.clamp(-_LARGEST, _LARGEST).exp()
    importance: torch.Tensor | float = 1.0
    anchor = behaviour
    truncated = torch.zeros_like(raw)
    if config.truncate is not None:
        anchor = logprobs.detach()
        importance = raw.clamp(max=config.truncate)
        truncated = (raw > config.truncate).to(raw.dtype)
    ratio = (logprobs - anchor).clamp(-_LARGEST, _LARGEST).exp()
    limited = ratio.clamp(1.0 - CLIP, 1.0 + CLIP)
    gain = torch.minimum(ratio * advantages, limited * advantages) * importance
    clipped = ratio * advantages > limited * advantages
    if config.trust:
        left = raw * advantages > raw.clamp(1.0 - CLIP, 1.0 + CLIP) * advantages
        gain = torch.where(left, gain.detach(), gain)
        clipped = clipped | left
    loss = -(weight * gain).sum()
    metrics = {
        "ratio": (weight * ratio.detach()).sum(),
        "clipped": (weight * clipped.detach()).sum(),
        "behaviour_kl": (weight * (behaviour - logprobs.detach())).sum(),
        "importance": (weight * raw).sum(),
        "truncated": (weight * truncated).sum(),
        "log_ratio": (weight * difference.abs()).sum(),
        "policy_nll": -(weight * logprobs.detach()).sum(),
    }
    if config.kl > 0:
        if reference is None:
            raise ValueError("a KL term needs the reference's log-probabilities")
        kl = (weight * k3(logprobs, reference)).sum()
        loss = loss + config.kl * kl
        metrics["kl"] = kl.detach()
    return loss, metrics


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Per token r - 1 - log r with r = reference / policy: an unbiased, never negative estimate of KL(policy ||
    reference) for tokens drawn from the policy (Schulman 2020, "Approximating KL divergence"). (N,), (N,) -> (N,)"""
    difference = (reference - logprobs).clamp(-_LARGEST, _LARGEST)
    return difference.exp() - 1.0 - difference
