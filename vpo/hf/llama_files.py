"""The small Llama of a directory and its tokenizer, read without transformers, which takes seconds to load."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer

from vpo.hf.llama import SMALL_MODEL, LlamaBatch, SmallLlama, is_plain
from vpo.languages.contract import DIALECT_KEY
from vpo.policies.prompt_formats import CHAT, is_token_format

_WORDS = {"backend", "clean_up_tokenization_spaces", "eos_token", "model_max_length", "pad_token", "padding_side"}
_WORDS |= {"tokenizer_class", "unk_token", "is_local", "local_files_only"}
"""Settings of a tokenizer that tokenizer.json says all about."""


class Unlike(Exception):
    """Something about a directory is otherwise than what is read here."""


class PlainTokenizer:
    """The tokenizer of a policy that writes a token language, called as those of transformers are.

    eos_token_id, unk_token_id: None where its files name no such token
    """

    chat_template = None

    def __init__(self, folder: Path) -> None:
        self._files = {name: (folder / name).read_bytes() for name in ("tokenizer.json", "tokenizer_config.json")}
        self._words = Tokenizer.from_buffer(self._files["tokenizer.json"])
        settings = json.loads(self._files["tokenizer_config.json"])
        if settings.keys() - _WORDS or settings.get("clean_up_tokenization_spaces"):
            raise Unlike
        named = [settings.get(name) for name in ("eos_token", "unk_token", "pad_token")]
        self.eos_token_id, self.unk_token_id, _ = (token and self._words.get_vocab()[token] for token in named)

    def __call__(self, text: str, *, add_special_tokens: bool) -> Any:
        """An object whose `input_ids` are those of the text."""
        return SimpleNamespace(input_ids=self._words.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False, **_: object) -> str:
        """The text of these tokens."""
        return self._words.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def save_pretrained(self, folder: Path) -> None:
        """Write its files there."""
        for name, content in self._files.items():
            (folder / name).write_bytes(content)


def load_llama(folder: Path, prompt_format: str | None) -> tuple[SmallLlama, Any] | None:
    """The policy of a directory that holds a small Llama which writes a token language; None if anything about its
    files is otherwise than known here: transformers then loads them, or says what is wrong.

    prompt_format: instead of the one that config.json names
    """
    try:
        return _read_llama(folder, prompt_format)
    except (Unlike, OSError, ValueError, LookupError, AttributeError, TypeError, RuntimeError, SafetensorError):
        return None


def _read_llama(folder: Path, prompt_format: str | None) -> tuple[SmallLlama, Any]:
    said, generation = (json.loads((folder / name).read_bytes()) for name in ("config.json", "generation_config.json"))
    said[DIALECT_KEY] = prompt_format or said.get(DIALECT_KEY, CHAT)
    file = folder / "model.safetensors"
    if not is_token_format(said[DIALECT_KEY]) or said["tie_word_embeddings"] or file.stat().st_size > 5 * SMALL_MODEL:
        raise Unlike
    config, weights = SimpleNamespace(**said), load_file(file)
    if len(weights["lm_head.weight"]) != said["vocab_size"] or not is_plain(config, weights):
        raise Unlike
    model, start = SmallLlama(config, weights, SimpleNamespace(**generation)), torch.zeros(1, 1).long()
    LlamaBatch(model).append(start, start, None)  # fails if the weights have other sizes
    return model, PlainTokenizer(folder)
