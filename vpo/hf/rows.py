"""Rows that share their prompts: each prompt goes through the model once, and each row gets a copy of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

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
