"""What the stages of bench/gpu.sh have in common: where they run, with which model, and how they measure."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PROMPT = "Write a Python function that returns the running maximum of a list of numbers."
GAP = {"cpu": 1e-3, "cuda": 0.1}
"""Mean nats a token by which two engines may differ: float32 on a CPU, bfloat16 on a GPU."""


class Skip(Exception):
    """A stage that cannot run here; the reason."""


@dataclass(frozen=True)
class Place:
    """out: the folder of results; model: id or directory; dry: on a CPU with a tiny model"""

    out: Path
    model: str
    dry: bool

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    @property
    def dtype(self) -> str:
        return "float32" if self.dry else "bfloat16"

    @property
    def tokens(self) -> int:
        return 12 if self.dry else 256

    def vllm(self, options: str = "", model: str = "") -> str:
        """The address of a vLLM policy, of the tests' server where it is dry. Raises Skip without vLLM."""
        if not self.dry and importlib.util.find_spec("vllm") is None:
            raise Skip("vLLM is not installed")
        context = "&context=256" if self.dry else ""
        return f"vllm:{model or self.model}?dtype={self.dtype}&gpu_memory=0.4{context}{options}"


def tiny_model(folder: Path) -> str:
    """A model of the family that is measured, small and untrained, with a tokenizer of bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    if (folder / "config.json").exists():
        return str(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)} | {"<end>": len(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")
    fast.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    torch.manual_seed(0)
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    ends = {"eos_token_id": len(letters), "bos_token_id": None, "pad_token_id": len(letters)}
    config = Qwen2Config(
        vocab_size=len(letters) + 1, num_key_value_heads=1, max_position_embeddings=4096, **shape, **ends
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


def load(address: str, place: Place, **settings: Any) -> Any:
    from vpo.policies.registry import load_policy

    return load_policy(address, max_tokens=place.tokens, **settings)


def plain(place: Place, model: str = "") -> Any:
    return load(model or place.model, place, device=place.device, dtype=place.dtype)


def prompts(count: int) -> list[Any]:
    from problems.types import Prompt

    return [Prompt(f"{PROMPT} Variant {i}.", stream=i) for i in range(count)]


def flat(groups: list[list[Any]]) -> list[Any]:
    return [one for group in groups for one in group]


def distance(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    return float(np.mean(np.abs(np.concatenate(one) - np.concatenate(other))))


def same(one: list[str], other: list[str]) -> float:
    """The share of texts that are alike."""
    return float(np.mean(np.array(one) == np.array(other)))


def check(name: str, value: float, most: float) -> float:
    if not value <= most:
        raise AssertionError(f"{name} is {value:.4g}; at most {most:g} was expected")
    return value


def keep(place: Place, stage: str, found: dict[str, Any]) -> None:
    """Print the latest figure and save all so far: what a limit of time cuts off leaves them."""
    name, value = next(reversed(found.items()))
    print(name, value, flush=True)
    (place.out / f"{stage}.part.json").write_text(json.dumps(found, indent=1, default=float))


def gpu_memory() -> float:
    """GiB of the GPU that anybody holds."""
    import torch

    if not torch.cuda.is_available():
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, env={**os.environ, **(environment or {})})


def evo(arguments: list[str], check: bool = True, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "evo", *arguments], check=check, **settings)
