"""Drawing tokens: each row from its own random stream, by inverse CDF, with the exact log-probability of the draw.

A row's uniforms come from a numpy generator seeded with (seed, stream, rollout), one per step, so its tokens do not
depend on its batch; only floating-point noise in the logits, about 1e-6 in float32, can move a draw that falls that
close to the border between two tokens. The cumulative sums are float64: a float32 sum over 150,000 tokens would be
off by more than the probability of most of them.

On a CPU the rows of a large vocabulary are drawn one after the other: a row of 150,000 tokens stays in the cache over
the passes that a draw makes, a batch of them does not (64 rows: 37 ms against 141 on one core).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

if TYPE_CHECKING:
    from vpo.languages.contract import AnswerGrammar

_BLOCK = 512
_DIRECT = 4096
"""Vocabularies up to this size are summed in one go, larger ones by blocks, then within the selected block."""
_NUCLEUS = 512


def uniforms(seed: int, stream: int, rollout: int, steps: int) -> npt.NDArray[np.float64]:
    """(steps,) in [0, 1): the row's draws; a longer row begins with the shorter one's."""
    key = [number & (1 << 64) - 1 for number in (seed, stream, rollout)]
    return np.random.default_rng(key).random(steps)


def draw(
    logits: torch.Tensor, uniform: torch.Tensor, temperature: float, top_p: float, *, checked: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token a row.

    logits: (rows, vocabulary), any float type
    uniform: (rows,) float64 in [0, 1)
    checked: False leaves it to the caller to look at the log-probabilities, which are NaN then: a GPU need not wait
    Returns tokens (rows,) int64 and their log-probabilities (rows,) float32 in nats, under the softmax of logits /
    temperature, cut to its nucleus of mass top_p and renormalised. Temperature 0 takes the likeliest token, with
    log-probability 0.
    Raises FloatingPointError if the logits are not finite.
    """
    if len(logits) > 1 and _one_by_one(logits):
        rows = ((logits[i : i + 1], uniform[i : i + 1]) for i in range(len(logits)))
        drawn = [draw(*row, temperature, top_p, checked=checked) for row in rows]
        return torch.cat([token for token, _ in drawn]), torch.cat([logprob for _, logprob in drawn])
    if temperature == 0.0:
        tokens = logits.argmax(-1)
        chosen = logits.gather(-1, tokens[:, None]).squeeze(-1).float()
        chosen = torch.where(torch.isfinite(chosen), 0.0, torch.nan)
        if checked:
            check_finite(chosen)
        return tokens, chosen
    scaled = logits.float() if temperature == 1.0 else logits.float() / temperature
    logprobs = torch.log_softmax(scaled, dim=-1)
    if top_p < 1.0:
        logprobs = nucleus(logprobs, top_p, whole=not checked)
    tokens = inverse_cdf(logprobs.exp(), uniform)
    chosen = logprobs.gather(-1, tokens[:, None]).squeeze(-1)
    if checked:
        check_finite(chosen)
    return tokens, chosen


def mask_forbidden(logits: torch.Tensor, grammar: AnswerGrammar, completions: torch.Tensor) -> torch.Tensor:
    """logits (rows, T, vocabulary) with -inf where a token may not come next. completions: (rows, T), whose own tokens
    are kept, also where they break the rules"""
    allowed = []
    for tokens in completions.unbind(1):
        allowed.append(grammar.allowed().scatter(1, tokens[:, None], True))
        grammar.advance(tokens)
    return logits.masked_fill(~torch.stack(allowed, 1), float("-inf"))


def _one_by_one(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and values.shape[-1] > _DIRECT


def check_finite(values: torch.Tensor) -> None:
    """Raise FloatingPointError if one of the values is not finite."""
    if not bool(torch.isfinite(values).all()):
        raise FloatingPointError("the model's logits are not finite")


def inverse_cdf(probabilities: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """(rows, vocabulary) float32 and (rows,) float64 in [0, 1) -> (rows,) int64, never a token of probability 0."""
    rows, size = probabilities.shape
    if size <= _DIRECT:
        cumulative = probabilities.double().cumsum(-1)
        return _first_above(cumulative, uniform * cumulative[:, -1])
    blocks = -(-size // _BLOCK)
    padded = torch.nn.functional.pad(probabilities, (0, blocks * _BLOCK - size)).view(rows, blocks, _BLOCK)
    block, rest = _search(padded.sum(-1, dtype=torch.float64).cumsum(-1), uniform)
    inside = padded[torch.arange(rows, device=padded.device), block].double().cumsum(-1)
    token = _first_above(inside, rest)
    return (block * _BLOCK + token).clamp(max=size - 1)  # NaN falls off the end; the caller sees it in the chosen index


def _search(cumulative: torch.Tensor, uniform: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(the bin that `uniform` of the total falls into, how far into it)."""
    target = uniform * cumulative[:, -1]
    first = _first_above(cumulative, target)
    before = cumulative.gather(-1, (first - 1).clamp(min=0)[:, None]).squeeze(-1)
    return first, target - torch.where(first > 0, before, torch.zeros_like(before))


def _first_above(cumulative: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The first bin whose sum exceeds the target; rounding can lift a target to the total, hence the step below it."""
    below_total = torch.nextafter(cumulative[:, -1], torch.zeros_like(target))
    target = torch.minimum(target, below_total).clamp(min=0.0)
    return torch.searchsorted(cumulative, target[:, None], right=True).squeeze(-1).clamp(max=cumulative.shape[-1] - 1)


def nucleus(logprobs: torch.Tensor, top_p: float, *, whole: bool = False) -> torch.Tensor:
    """(rows, vocabulary) log-probabilities cut to the likeliest tokens whose mass reaches top_p (including the one
    that crosses it), renormalised; -inf elsewhere. whole: sort all tokens, rather than ask whether some hundreds do"""
    if _one_by_one(logprobs):
        return torch.stack([_nucleus_of(row, top_p) for row in logprobs])
    width = logprobs.shape[-1] if whole else min(_NUCLEUS, logprobs.shape[-1])
    top, order = logprobs.topk(width, dim=-1)
    if width < logprobs.shape[-1] and bool((top.double().exp().sum(-1) < top_p).any()):  # a flat row: sort it whole
        top, order = logprobs.sort(dim=-1, descending=True, stable=True)
    return torch.full_like(logprobs, float("-inf")).scatter(-1, order, _kept(top, top_p))


def _nucleus_of(logprobs: torch.Tensor, top_p: float) -> torch.Tensor:
    """One row (vocabulary,). The unlikeliest tokens, whose total mass is below the cut-off mass, are not sorted: of
    150,000 tokens that leaves some hundreds."""
    floor = math.log1p(-top_p) - math.log(len(logprobs))
    likely = (logprobs > floor).nonzero().squeeze(-1)
    top, order = logprobs[likely].sort(descending=True, stable=True)
    return torch.full_like(logprobs, float("-inf")).scatter(-1, likely[order], _kept(top, top_p))


def _kept(top: torch.Tensor, top_p: float) -> torch.Tensor:
    """Falling log-probabilities (..., width), renormalised over those inside the nucleus; -inf for the others."""
    mass = top.double().exp()
    inside = mass.cumsum(-1) - mass < top_p
    total = torch.where(inside, mass, 0.0).sum(-1, keepdim=True).log()
    return torch.where(inside, (top.double() - total).float(), float("-inf"))
