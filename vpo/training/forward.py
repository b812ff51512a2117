"""Log-probabilities of completions under a causal language model, with gradient.

All rollouts of a group share their prompt, and a search's prompts are long. So the prompt goes through the model once,
with gradient, and its keys and values are handed to every rollout of the group. Prompts of unequal length are padded.

Where the model's state is more than keys and values (a recurrence, a window), each prompt is run with each of its
completions, and all padding is behind what counts. Both forms give the same log-probabilities and gradients up to
rounding.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import DynamicCache

from vpo.hf.cache import accepted, cache_argument, keeps_all_columns
from vpo.hf.decoding import in_float32, logprob_differences, some_tokens, try_decoding
from vpo.hf.sampling import mask_forbidden
from vpo.policies.encoding import grammar_of, named_prompt_format
from vpo.training.examples import Example, ExampleGroup

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Packed:
    """A micro-batch on its device. Prompts are padded before their last token, completions on the right. So a token of
    padding attends to what is before it, and no row of an attention mask hides everything: what a kernel gives for such
    a row, its gradient above all, is the kernel's own affair. (A prompt of one token has its padding in front.)

    prompts, prompt_mask: (B, P); completions, mask: (R, T); row: (R,) which prompt a completion answers, rising
    temperature: (R, 1)
    size: of every group, 0 if they differ; shortest: tokens of the shortest prompt. Numbers of the host: to ask a GPU
        for them, in every layer, makes it wait
    """

    prompts: torch.Tensor
    prompt_mask: torch.Tensor
    completions: torch.Tensor
    mask: torch.Tensor
    row: torch.Tensor
    temperature: torch.Tensor
    size: int
    shortest: int

    @property
    def scores(self) -> int:
        """The attention scores of one head, if each prompt is run once."""
        (prompts, width), (rows, length) = self.prompts.shape, self.completions.shape
        return prompts * width**2 + rows * length * (width + length)

    def prompt_ids(self) -> list[npt.NDArray[np.int32]]:
        """The prompts without their padding."""
        rows = zip(self.prompts.cpu().numpy(), self.prompt_mask.cpu().numpy(), strict=True)
        return [ids[mask].astype(np.int32) for ids, mask in rows]


def pack_groups(groups: Sequence[ExampleGroup], device: torch.device | str = "cpu") -> Packed:
    """Put groups into one micro-batch."""
    rows = [(b, example.token_ids) for b, group in enumerate(groups) for example in group.examples]
    prompts, prompt_mask = _padded([group.prompt_ids for group in groups], last=1)
    completions, mask = _padded([ids for _, ids in rows])
    row = torch.tensor([b for b, _ in rows])
    temperature = torch.tensor([groups[b].temperature for b, _ in rows], dtype=torch.float32)[:, None]
    sizes = {len(group.examples) for group in groups}
    return Packed(
        prompts.to(device), prompt_mask.to(device), completions.to(device), mask.to(device), row.to(device),
        temperature.to(device), sizes.pop() if len(sizes) == 1 else 0, min(len(group.prompt_ids) for group in groups),
    )  # fmt: skip


def completion_logprobs(model: PreTrainedModel, packed: Packed) -> torch.Tensor:
    """(R, T) float32 log-probabilities (nats) of the completions' tokens at their sampling temperature; values on
    padding have no meaning."""
    shares = can_share(model) and packed.shortest >= 2
    logits = _shared_logits(model, packed) if shares else _unshared_logits(model, packed)
    if (start := grammar_of(named_prompt_format(model.config))) is not None:
        logits = mask_forbidden(logits, start(packed.prompt_ids(), packed.row), packed.completions)
    temperature = packed.temperature.expand_as(packed.completions).reshape(-1)
    chosen = _Chosen.apply(logits.flatten(0, 1), packed.completions.reshape(-1), temperature)
    return chosen.view_as(packed.completions)


_CHUNK = 1 << 24
"""Logits that are worked on at once."""


class _Chosen(torch.autograd.Function):
    """log softmax(logits / temperature) at the chosen tokens: (N, V), (N,), (N,) -> (N,) float32.

    A few rows at a time, with the softmax computed again for the gradient: next to the logits themselves, the largest
    tensor of a step, nothing of their size is kept but their gradient. The plain expression keeps four.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, ids: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        scaled = (part.float() / t[:, None] for part, t in _chunks(logits, temperature))
        total = torch.cat([part.logsumexp(-1) for part in scaled])
        ctx.save_for_backward(logits, ids, temperature, total)
        return logits.gather(-1, ids[:, None]).squeeze(-1).float() / temperature - total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, ids, temperature, total = ctx.saved_tensors
        result = torch.empty_like(logits)
        for part, ours, chosen, g, t, z in _chunks(logits, result, ids, gradient, temperature, total):
            g = (g / t)[:, None]
            slope = (part.float() / t[:, None]).sub_(z[:, None]).exp_().mul_(-g)
            ours.copy_(slope.scatter_add_(-1, chosen[:, None], g))
        return result, None, None


def _chunks(logits: torch.Tensor, *others: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    rows = max(1, _CHUNK // logits.shape[-1])
    return zip(*(tensor.split(rows) for tensor in (logits, *others)), strict=True)


_can_share: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()


def can_share(model: PreTrainedModel) -> bool:
    """Whether prompts may be shared, and padded to one length: the model's state is the keys and values of all tokens,
    and both forms agree. Tried once for each model."""
    if model not in _can_share:
        _can_share[model] = _try_sharing(model)
    return _can_share[model]


def _try_sharing(model: PreTrainedModel) -> bool:
    whole = getattr(model, "get_base_model", lambda: model)()
    tolerance = try_decoding(whole).tolerance
    if not keeps_all_columns(model.config):
        return False
    groups = [
        ExampleGroup(
            some_tokens(whole, prompt).astype(np.int32),
            tuple(Example(some_tokens(whole, n).astype(np.int32), None, np.zeros(n, np.float32)) for n in lengths),
            1.0,
        )
        for prompt, lengths in ((5, (6, 2)), (29, (3, 7, 1)))
    ]
    packed = pack_groups(groups, model.device)
    try:
        with torch.no_grad(), in_float32(model):
            forms = (form(model, packed)[packed.mask] for form in (_shared_logits, _unshared_logits))
            return float(logprob_differences(*forms).max()) <= tolerance
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a foreign model can do anything
        return False


def _shared_logits(model: PreTrainedModel, packed: Packed) -> torch.Tensor:
    """(R, T, V). The prompt without its last token fills the cache; every row then opens with that token, so that its
    T logits are those of its T completion tokens."""
    head, head_mask = packed.prompts[:, :-1], packed.prompt_mask[:, :-1]
    cache: Any = DynamicCache(config=model.config)
    with_cache = {cache_argument(model): cache, **accepted(model, use_cache=True)}
    positions = accepted(model, position_ids=_positions(head_mask), logits_to_keep=1)
    model(input_ids=head, attention_mask=head_mask, **positions, **with_cache)
    for layer in cache.layers:
        layer.keys, layer.values = _spread(layer.keys, packed), _spread(layer.values, packed)
    tail = torch.cat([packed.prompts[packed.row, -1:], packed.completions[:, :-1]], dim=1)
    seen = torch.cat([packed.prompt_mask[packed.row], packed.mask[:, :-1]], dim=1)
    positions = accepted(model, position_ids=_positions(seen)[:, head.shape[1] :])
    return model(input_ids=tail, attention_mask=seen, **positions, **with_cache).logits


def _spread(states: torch.Tensor, packed: Packed) -> torch.Tensor:
    """(B, heads, P, width) -> (R, heads, P, width): each prompt's states for its rows. Groups of one size go by
    expansion, whose gradient is a plain sum."""
    if packed.size:
        return states[:, None].expand(-1, packed.size, -1, -1, -1).flatten(0, 1)
    return states[packed.row]


def _unshared_logits(model: PreTrainedModel, packed: Packed) -> torch.Tensor:
    """(R, T, V), a prompt at a time. Padding is on the right, after all that counts, so no mask is needed."""
    length = packed.completions.shape[1]
    arguments = accepted(model, use_cache=False, logits_to_keep=length + 1)
    parts = []
    for b, (prompt, mask) in enumerate(zip(packed.prompts, packed.prompt_mask, strict=True)):
        completions = packed.completions[packed.row == b]
        ids = torch.cat([prompt[mask].expand(len(completions), -1), completions], dim=1)
        parts.append(model(input_ids=ids, **arguments).logits[:, -length - 1 : -1])
    return torch.cat(parts)


def _positions(mask: torch.Tensor) -> torch.Tensor:
    return (mask.long().cumsum(-1) - 1).clamp(min=0)


def _padded(rows: Sequence[np.ndarray], last: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Padding is before the `last` tokens of a row."""
    longest = max(len(row) for row in rows)
    ids = np.zeros((len(rows), longest), dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=bool)
    for i, row in enumerate(rows):
        where = [*range(len(row) - last), *range(longest - last, longest)]
        ids[i, where], mask[i, where] = row, True
    return torch.from_numpy(ids), torch.from_numpy(mask)
