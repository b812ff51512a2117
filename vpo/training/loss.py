"""The losses, over flat completion tokens: the clipped policy gradient with its two corrections, preferences,
desirability, balance.

All tensors are (N,), one entry for each completion token of a micro-batch, in nats where they are log-probabilities.
`weights` carries the normalisation of the whole optimiser step (examples.token_weights), so the losses of micro-batches
add up to the loss of the batch however it was cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import logsigmoid

from vpo.training.config import LossConfig, PreferenceSettings

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


def sums_by_rollout(values: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """(N,) of tokens -> (rollouts,). lengths: tokens of each rollout, which add up to N"""
    counts = torch.tensor(lengths, device=values.device)
    rows = torch.arange(len(counts), device=values.device).repeat_interleave(counts)
    return values.new_zeros(len(counts)).index_add(0, rows, values)


PREFERENCE_METRICS = ("margin", "preferred", "policy_nll")
"""What preference_loss reports."""


def preference_loss(
    logprobs: torch.Tensor,
    reference: torch.Tensor,
    lengths: Sequence[int],
    weights: torch.Tensor,
    settings: PreferenceSettings,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Direct preference optimization (Rafailov et al., arXiv 2305.18290) with the likelihood of the better answer (RPO,
    arXiv 2404.19733): a preference alone may be met by making both answers rarer. Returns the loss, a scalar that
    carries gradient, and weighted means over pairs of what a log shows.

    logprobs, reference: (N,) nats of the completions' tokens under the policy, with gradient, and where it started
    lengths: tokens of each completion, one better answer and one worse by turns; they add up to N
    weights: (N,) of the tokens; a pair weighs what its tokens do together
    margin: beta x how much more the policy now prefers the better answer, in nats; preferred: the share of
    pairs in which it has; policy_nll: -logprobs of a token of the better answers
    """

    def add_up(values: torch.Tensor) -> torch.Tensor:
        """(N,) -> (pairs, 2): better, worse."""
        return sums_by_rollout(values, lengths).view(-1, 2)

    of_pair = add_up(weights).sum(1)
    apart = add_up(logprobs - reference)
    margin = settings.beta * (apart[:, 0] - apart[:, 1])
    likelihood = add_up(logprobs)[:, 0] / logprobs.new_tensor(lengths[::2])
    loss = (of_pair * (-logsigmoid(margin) - settings.likelihood * likelihood)).sum()
    return loss, {
        "margin": (of_pair * margin.detach()).sum(),
        "preferred": (of_pair * (margin.detach() > 0)).sum(),
        "policy_nll": -(of_pair * likelihood.detach()).sum(),
    }


DESIRABILITY_METRICS = ("margin", "preferred", "reference_point", "policy_nll")
"""What desirability_loss reports."""


def desirability_loss(
    logprobs: torch.Tensor,
    reference: torch.Tensor,
    advantages: torch.Tensor,
    lengths: Sequence[int],
    weights: torch.Tensor,
    point: float,
    beta: float,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Kahneman-Tversky optimization (Ethayarajh et al., arXiv 2402.01306). A rollout's reward is log policy - log
    reference. Its loss is lambda x (1 - sigmoid(beta x (reward - point))) if it is desirable, and lambda x (1 -
    sigmoid(beta x (point - reward))) if it is not, so that a rollout far on either side of the point teaches little.

    logprobs, reference: (N,) nats of the rollouts' tokens under the policy, with gradient, and where it started
    advantages: (N,), lambda of a desirable rollout, -lambda of an undesirable one, alike for all its tokens
    lengths: tokens of each rollout, which add up to N
    weights: (N,) of the tokens; a rollout weighs what its tokens do together
    point: the estimate of KL(policy || reference), in nats, that rewards are compared with; it carries no gradient
    Returns the loss, a scalar that carries gradient, and margin: beta x how much more likely desirable rollouts have
    become than undesirable ones, in nats, each kind weighing its lambda; preferred: the share of rollouts on their side
    of the point; reference_point; policy_nll: -logprobs of a token of the desirable rollouts.
    """
    counts = logprobs.new_tensor(lengths)
    signed = sums_by_rollout(advantages, lengths) / counts
    of_rollout = sums_by_rollout(weights, lengths) * signed.abs()
    rewards = sums_by_rollout(logprobs - reference, lengths)
    gained = signed.sign() * (rewards - point)
    loss = (of_rollout * (1.0 - torch.sigmoid(beta * gained))).sum()
    likelihood = sums_by_rollout(logprobs.detach(), lengths) / counts
    return loss, {
        "margin": 2 * beta * (of_rollout * signed.sign() * rewards.detach()).sum(),
        "preferred": (of_rollout * (gained.detach() > 0)).sum(),
        "reference_point": weights.sum() * point,
        "policy_nll": -2 * (of_rollout * (signed > 0) * likelihood).sum(),
    }


BALANCE_METRICS = ("residual", "kl", "policy_nll")
"""What balance_loss reports."""


def balance_loss(
    logprobs: torch.Tensor,
    reference: torch.Tensor,
    advantages: torch.Tensor,
    lengths: Sequence[int],
    sizes: Sequence[int],
    weights: torch.Tensor,
    beta: float,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Trajectory balance (Malkin et al., arXiv 2201.13259) for the target start(y) exp(reward(y) / beta): the policy
    comes to match this distribution, so that a rare rollout keeps its share, instead of climbing to the best one.

    A rollout's residual is log policy(y) - log start(y) - reward(y) / beta. At balance it is -log Z for all rollouts of
    a prompt. log Z is estimated by the group's mean (VarGrad, arXiv 2010.10436). The loss is beta / 2 times the
    weighted sum of squared residuals less their mean. On rollouts of the policy itself its gradient is that of the mean
    reward less beta x KL(policy || start), with the group's mean as baseline. The optimum is the same for rollouts of
    any policy.

    logprobs, reference: (N,) nats under the policy, with gradient, and where it started
    advantages: (N,), of each rollout its reward less the group's mean, alike for all its tokens
    lengths: tokens of each rollout, which add up to N; sizes: rollouts of each group, all of them
    weights: (N,) of the tokens; a rollout weighs what one of its tokens does, as in the policy gradient
    Returns the loss, a scalar that carries gradient, and residual: the mean size, in nats, of a residual less log Z;
    kl: log policy - log start of a token (k1); policy_nll: -logprobs of a token.
    """
    device = logprobs.device
    counts = torch.tensor(lengths, device=device)
    group_sizes = torch.tensor(sizes, device=device)
    groups = torch.arange(len(sizes), device=device).repeat_interleave(group_sizes)

    residuals = sums_by_rollout(logprobs - reference, lengths) - sums_by_rollout(advantages, lengths) / counts / beta
    means = residuals.detach().new_zeros(len(sizes)).index_add(0, groups, residuals.detach()) / group_sizes
    apart = residuals - means[groups]
    of_rollout = sums_by_rollout(weights, lengths)
    loss = (beta / 2) * (of_rollout / counts * apart.square()).sum()
    return loss, {
        "residual": (of_rollout * apart.detach().abs()).sum(),
        "kl": (weights * (logprobs.detach() - reference)).sum(),
        "policy_nll": -(weights * logprobs.detach()).sum(),
    }
