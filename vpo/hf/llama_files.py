"""The small Llama of a directory and its tokenizer, read without transformers, which takes seconds to load."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer

from vpo.hf.llama import SMALL_MODEL, SmallLlama
from vpo.languages.contract import DIALECT_KEY
from vpo.policies.prompt_formats import CHAT, is_token_format

_PLAIN = {
    **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "hidden_act": "silu"},
    **{"attention_bias": False, "mlp_bias": False, "tie_word_embeddings": False},
}
"""What config.json says of every Llama that vpo.hf.llama computes."""
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
    """The policy of a directory, where it is a small Llama that writes a token language; None if anything about its
    files is otherwise than known here: transformers then loads them, or says what is wrong.

    prompt_format: instead of the one that config.json names
    """
    try:
        return _read_llama(folder, prompt_format)
    except (Unlike, OSError, ValueError, LookupError, TypeError, SafetensorError):
        return None


def _read_llama(folder: Path, prompt_format: str | None) -> tuple[SmallLlama, Any]:
    said, generation = (json.loads((folder / name).read_bytes()) for name in ("config.json", "generation_config.json"))
    said[DIALECT_KEY] = prompt_format or said.get(DIALECT_KEY, CHAT)
    rotations, heads, width = said["rope_parameters"], said["num_attention_heads"], said["head_dim"]
    if (
        not is_token_format(said[DIALECT_KEY])
        or {name: said.get(name) for name in _PLAIN} != _PLAIN
        or rotations.keys() != {"rope_type", "rope_theta"}
        or rotations["rope_type"] != "default"
        or heads != said["num_key_value_heads"]
    ):
        raise Unlike
    hidden, inner, words = said["hidden_size"], said["intermediate_size"], said["vocab_size"]
    sizes: dict[str, tuple[int, ...]] = {"model.norm": (hidden,)}
    sizes |= dict.fromkeys(("model.embed_tokens", "lm_head"), (words, hidden))
    for layer in (f"model.layers.{number}" for number in range(said["num_hidden_layers"])):
        sizes |= dict.fromkeys((f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm"), (hidden,))
        sizes |= {f"{layer}.self_attn.{name}_proj": (heads * width, hidden) for name in "qkv"}
        sizes |= {f"{layer}.self_attn.o_proj": (hidden, heads * width), f"{layer}.mlp.down_proj": (hidden, inner)}
        sizes |= {f"{layer}.mlp.{name}_proj": (inner, hidden) for name in ("gate", "up")}
    weights = load_file(folder / "model.safetensors")
    if (
        {name: tuple(weight.shape) for name, weight in weights.items()}
        != {f"{name}.weight": size for name, size in sizes.items()}
        or any(weight.dtype != torch.float32 for weight in weights.values())
        or sum(map(math.prod, sizes.values())) >= SMALL_MODEL
    ):
        raise Unlike
    tokenizer = PlainTokenizer(folder)
    return SmallLlama(SimpleNamespace(**said), weights, SimpleNamespace(**generation)), tokenizer
