"""Direct preference optimization (Rafailov et al., arXiv 2305.18290) over flat completion tokens, with the likelihood
of the better answer beside it (RPO, arXiv 2404.19733): a preference alone may be met by making both answers rarer.

As in vpo.training.loss, `weights` carries the normalisation of the whole optimiser step.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import logsigmoid

from vpo.training.config import PreferenceSettings

METRICS = ("margin", "preferred", "policy_nll")
"""What preference_loss reports."""


def preference_loss(
    logprobs: torch.Tensor,
    reference: torch.Tensor,
    lengths: Sequence[int],
    weights: torch.Tensor,
    settings: PreferenceSettings,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss, a scalar that carries gradient, and weighted means over pairs of what a log shows.

    logprobs, reference: (N,) nats of the completions' tokens under the policy, with gradient, and where it started
    lengths: tokens of each completion, one better answer and one worse by turns; they add up to N
    weights: (N,) of the tokens; a pair weighs what its tokens do together
    margin: beta x how much more the policy has come to prefer the better answer, in nats; preferred: the share of
    pairs in which it has; policy_nll: -logprobs of a token of the better answers
    """
    counts = torch.tensor(lengths, device=logprobs.device)
    rows = torch.arange(len(counts), device=logprobs.device).repeat_interleave(counts)

    def add_up(values: torch.Tensor) -> torch.Tensor:
        """(N,) -> (pairs, 2): better, worse."""
        return values.new_zeros(len(counts)).index_add(0, rows, values).view(-1, 2)

    of_pair = add_up(weights).sum(1)
    apart = add_up(logprobs - reference)
    margin = settings.beta * (apart[:, 0] - apart[:, 1])
    likelihood = add_up(logprobs)[:, 0] / counts.view(-1, 2)[:, 0]
    loss = (of_pair * (-logsigmoid(margin) - settings.likelihood * likelihood)).sum()
    return loss, {
        "margin": (of_pair * margin.detach()).sum(),
        "preferred": (of_pair * (margin.detach() > 0)).sum(),
        "policy_nll": -(of_pair * likelihood.detach()).sum(),
    }
