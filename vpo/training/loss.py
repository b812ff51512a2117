"""The loss, over flat completion tokens: the clipped policy gradient with its two corrections.

All tensors are (N,), one entry for each completion token of a micro-batch, in nats where they are log-probabilities.
`weights` carries the normalisation of the whole optimiser step (examples.token_weights), so the losses of micro-batches
add up to the loss of the batch however it was cut.
"""

from __future__ import annotations

import torch

from vpo.training.config import LossConfig

METRICS = ("ratio", "clipped", "behaviour_kl", "importance", "truncated", "log_ratio", "policy_nll")
"""What policy_loss always reports; `kl` too with a KL term."""

_LARGEST = 20.0
"""Bound on a difference of log-probabilities before it is exponentiated: e^20 is far beyond any clip."""


def policy_loss(
    logprobs: torch.Tensor,
    behaviour: torch.Tensor | None,
    advantages: torch.Tensor,
    weights: torch.Tensor,
    config: LossConfig,
    *,
    start: torch.Tensor | None = None,
    reference: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss, a scalar that carries gradient, and weighted sums of what a log shows.

    logprobs: of the policy that is trained, with gradient; behaviour: of the policy that sampled, as recorded; None
        if nothing sampled the tokens, and it is taken to be the present one: with advantages of 1 that is maximum
        likelihood
    start: of the policy at the start of the step, used with `truncate`; None = the present one, which is the same
        thing for the first update on a batch
    reference: of the reference policy, needed where config.kl > 0
    Returns sums over tokens of weight x (ratio, clipped, kl, behaviour_kl = k1 of behaviour || policy; and of how far
    the sampled tokens are from the policy: importance = policy / behaviour before any cap, truncated = whether the cap
    took some of it, log_ratio = its size in nats), and policy_nll = -logprobs.
    """
    behaviour = logprobs.detach() if behaviour is None else behaviour
    stale = logprobs.detach() if start is None else start
    apart = stale - behaviour
    raw = apart.clamp(-_LARGEST, _LARGEST).exp()
    importance: torch.Tensor | float = 1.0
    anchor = behaviour
    truncated = torch.zeros_like(raw)
    if config.truncate is not None:
        anchor = stale
        importance = raw.clamp(max=config.truncate)
        truncated = (raw > config.truncate).to(raw.dtype)
    ratio = (logprobs - anchor).clamp(-_LARGEST, _LARGEST).exp()
    limited = ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    gain = torch.minimum(ratio * advantages, limited * advantages) * importance
    clipped = ratio * advantages > limited * advantages
    if config.trust:
        moved = (logprobs.detach() - behaviour).clamp(-_LARGEST, _LARGEST).exp()
        left = moved * advantages > moved.clamp(1.0 - config.clip_low, 1.0 + config.clip_high) * advantages
        gain = torch.where(left, gain.detach(), gain)
        clipped = clipped | left
    loss = -(weights * gain).sum()
    metrics = {
        "ratio": (weights * ratio.detach()).sum(),
        "clipped": (weights * clipped.detach()).sum(),
        "behaviour_kl": (weights * (behaviour - logprobs.detach())).sum(),
        "importance": (weights * raw).sum(),
        "truncated": (weights * truncated).sum(),
        "log_ratio": (weights * apart.abs()).sum(),
        "policy_nll": -(weights * logprobs.detach()).sum(),
    }
    if config.kl > 0:
        if reference is None:
            raise ValueError("a KL term needs the reference's log-probabilities")
        kl = (weights * k3(logprobs, reference)).sum()
        loss = loss + config.kl * kl
        metrics["kl"] = kl.detach()
    return loss, metrics


def k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Per token r - 1 - log r with r = reference / policy: an unbiased, never negative estimate of KL(policy ||
    reference) for tokens drawn from the policy (Schulman 2020, "Approximating KL divergence"). (N,), (N,) -> (N,)"""
    difference = (reference - logprobs).clamp(-_LARGEST, _LARGEST)
    return difference.exp() - 1.0 - difference
