"""Rows without a cache of ours: the rows of one prompt by the model's own `generate`, token by token.

For models whose state cannot be copied from one row to several, or is wrong for prompts of unequal length. Where
that is wrong too, every token computes the whole text again. Slower: a prompt is computed once a row, and each prompt
is a separate batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import GenerationConfig, LogitsProcessor, StoppingCriteria

from vpo.hf.cache import accepted

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
