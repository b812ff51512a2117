"""The text side of an engine: its model's tokenizer and what the model's files say, in the engine's own process.

There because transformers, which the engine brings along anyway, takes seconds to import: a search that asks an engine
does without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from problems.types import Prompt
from vpo.policies.checkpoint import without_bars
from vpo.policies.encoding import decode_rollout, encode_prompt, end_tokens, named_prompt_format, own_temperature


@dataclass(frozen=True)
class Description:
    """What a model's files say. prompt_format: as they name it, known here or not; stops: the tokens that end a
    rollout; commit: of the repository on the hub, None for a directory; temperature: that they recommend"""

    prompt_format: str
    stops: frozenset[int]
    commit: str | None
    temperature: float | None


class Text:
    """Prompts into tokens, rollouts into text. Raises whatever a foreign checkpoint makes transformers raise."""

    def __init__(self, model: str) -> None:
        from transformers import AutoConfig, GenerationConfig

        self._tokenizer = load_tokenizer(model)
        with without_bars():
            config = AutoConfig.from_pretrained(model)
            try:
                generation = GenerationConfig.from_pretrained(model)
            except OSError:  # a checkpoint need not have one
                generation = GenerationConfig.from_model_config(config)
        self.description = Description(
            named_prompt_format(config),
            end_tokens(generation, self._tokenizer),
            getattr(config, "_commit_hash", None),
            own_temperature(generation),
        )

    def encode(self, prompt: Prompt) -> npt.NDArray[np.int32]:
        """The prompt's token ids (P,), its prefill among them."""
        return encode_prompt(self._tokenizer, self.description.prompt_format, prompt)

    def decode(self, ids: npt.NDArray[np.int32], stopped: bool, prefill: str) -> str:
        """What a rollout says, its prefill before it."""
        return decode_rollout(self._tokenizer, ids, stopped, self.description.prompt_format, prefill)


def load_tokenizer(model: str) -> Any:
    """A model's tokenizer, as transformers has it."""
    from transformers import AutoTokenizer

    with without_bars():
        return AutoTokenizer.from_pretrained(model)
