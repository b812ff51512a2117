"""The rows of a batch, token by token.

`SharedRows`: each prompt goes through the model once, and each row gets a copy of its state. `generate_rows`: the rows
of one prompt by the model's own `generate`, for models whose state cannot be copied from one row to several, or is
wrong for prompts of unequal length; where that is wrong too, every token computes the whole text again. Slower: a
prompt is computed once a row, and each prompt is a separate batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from vpo.hf.cache import accepted, cache_argument, keeps_all_columns, make_cache
from vpo.hf.llama_step import llama_step

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, eq=False)
class ComputedPrompts:
    """Prompts that went through the model, each once.

    cache: their keys and values; real: (prompts, columns) bool, which of its columns are tokens
    row: (rows,) the prompt of each row; logits: (rows, vocabulary) of its first token
    """

    cache: Any
    real: torch.Tensor
    row: torch.Tensor
    logits: torch.Tensor


def compute_prompts(
    model: PreTrainedModel, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor, pad: int
) -> ComputedPrompts:
    """Run the prompts in one batch, padded on the left. row: (rows,) the prompt of each row; pad: any token"""
    columns = max(len(prompt) for prompt in prompts)
    padded = np.full((len(prompts), columns), pad, dtype=np.int64)
    for i, prompt in enumerate(prompts):
        padded[i, columns - len(prompt) :] = prompt
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = torch.from_numpy(padded).to(model.device)
    real = torch.from_numpy(np.arange(columns) >= columns - lengths[:, None]).to(model.device)
    cache = make_cache(model.config)
    mask, positions = None if bool(real.all()) else real, (real.cumsum(-1) - 1).clamp(min=0)
    arguments = accepted(model, position_ids=positions, use_cache=True, logits_to_keep=1)
    arguments[cache_argument(model)] = cache
    logits = model(input_ids=ids, attention_mask=mask, **arguments).logits[:, -1]
    return ComputedPrompts(cache, real, row, logits[row])


class SharedRows:
    """The rows of a batch, each with its own copy of its prompt's cache.

    logits: (rows, vocabulary) of the next token
    """

    def __init__(self, model: PreTrainedModel, computed: ComputedPrompts) -> None:
        self._model, self._cache, real, row = model, computed.cache, computed.real, computed.row
        self._llama_step = llama_step(model)
        self._in_place = keeps_all_columns(model.config)
        # SDPA takes the mask of one column in its final shape, which saves rebuilding it in every step
        self._final_mask = model.config._attn_implementation == "sdpa" and self._in_place
        if not torch.equal(row, torch.arange(len(real), device=row.device)):
            self._cache.reorder_cache(row)
        self._mask = real[row] if not bool(real.all()) else None
        self._positions = real.sum(-1)[row]
        self.logits = computed.logits
        self._arguments = {cache_argument(model): self._cache, **accepted(model, use_cache=True)}
        self._takes_positions = bool(accepted(model, position_ids=None))

    def step(self, tokens: torch.Tensor) -> None:
        """Append one token per row (rows,)."""
        if self._mask is not None:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        mask = self._mask[:, None, None] if self._mask is not None and self._final_mask else self._mask
        if self._llama_step is not None:
            self.logits = self._llama_step(tokens, self._positions, self._cache.layers, mask)
        else:
            positions = {"position_ids": self._positions[:, None]} if self._takes_positions else {}
            output = self._model(input_ids=tokens[:, None], attention_mask=mask, **positions, **self._arguments)
            self.logits = output.logits[:, -1]
        self._positions = self._positions + 1

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these, and the columns that none of them has."""
        self._positions = self._positions[rows]
        self._mask = self._mask[rows] if self._mask is not None else None
        if not self._in_place:
            self._cache.reorder_cache(rows)
            return
        first = 0
        if self._mask is not None:
            first = int(self._mask.any(0).to(torch.uint8).argmax())
            self._mask = self._mask[:, first:]
        for layer in self._cache.layers:
            layer.select(rows, first)


Take = Callable[[torch.Tensor], torch.Tensor | None]
"""The next token of each row (rows,) from its logits (rows, vocabulary); None once all rows have ended."""


def generate_rows(
    model: PreTrainedModel, prompt: npt.NDArray[np.int32], rows: int, limit: int, take: Take, *, cached: bool
) -> None:
    """Hand the logits of `rows` rows of a prompt to `take`, which says the tokens, at most `limit` times.

    cached: with the state that the model's `generate` keeps; else every token computes the whole text again
    """
    ids = torch.from_numpy(prompt.astype(np.int64)).to(model.device).repeat(rows, 1)
    if cached:
        _generate(model, ids, limit, take)
        return
    arguments = accepted(model, use_cache=False, logits_to_keep=1)
    for _ in range(limit):
        tokens = take(model(input_ids=ids, **arguments).logits[:, -1])
        if tokens is None:
            return
        ids = torch.cat([ids, tokens[:, None]], dim=1)


def _generate(model: Any, ids: torch.Tensor, limit: int, take: Take) -> None:
    chosen = _Chosen(take)
    # a compiled step would not be the one that was tried out
    settings = GenerationConfig(max_new_tokens=limit, do_sample=False, pad_token_id=0, disable_compile=True)
    usual = model.generation_config
    try:
        # what a checkpoint recommends (a penalty of repetitions, say) would change the distribution
        model.generation_config = GenerationConfig()
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            generation_config=settings,
            logits_processor=[chosen],
            stopping_criteria=[_Ended(chosen)],
        )
    finally:
        model.generation_config = usual


class _Chosen(LogitsProcessor):
    """Leaves one token of each row, so that greedy search takes it."""

    def __init__(self, take: Take) -> None:
        self._take, self.ended = take, False

    def __call__(self, input_ids: Any, scores: torch.Tensor) -> torch.Tensor:
        tokens = None if self.ended else self._take(scores)
        self.ended = tokens is None
        kept = torch.full_like(scores, float("-inf"))
        return kept.scatter_(1, torch.zeros_like(input_ids[:, :1]) if tokens is None else tokens[:, None], 0.0)


class _Ended(StoppingCriteria):
    def __init__(self, chosen: _Chosen) -> None:
        self._chosen = chosen

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        return torch.full((len(input_ids),), self._chosen.ended, device=input_ids.device)
