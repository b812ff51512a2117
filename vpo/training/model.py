"""The model that is trained: its adapter (LoRA, arXiv 2106.09685, by peft, imported only where one is asked for), its
precision and attention, AdamW with its schedule.

`release_free_memory` returns memory: a step takes and frees hundreds of megabytes in pieces of all sizes, and the C
library keeps what was freed, for each thread separately, so that a search that trains would grow to several gigabytes.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from problems.contract import BadAddress
from vpo.hf.rows import leave_cudnn_attention
from vpo.policies.checkpoint import NEEDS_PEFT, Adapted, without_peft_warnings
from vpo.training.config import LoraSettings, Precision, TrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.training.forward import Packed


def with_adapter(model: PreTrainedModel, settings: LoraSettings, seed: int) -> PreTrainedModel:
    """The model with a fresh adapter, drawn from `seed`, whose weights alone are trained. Raises BadAddress where peft
    is missing, or the model has no layer that takes an adapter."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise BadAddress(NEEDS_PEFT) from error
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,  # type: ignore[arg-type]  # any number will do
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), without_peft_warnings():
        torch.manual_seed(seed)
        try:
            adapted = cast("PreTrainedModel", get_peft_model(model, config))
        except ValueError as error:
            raise BadAddress(f"policy {model.name_or_path}: its linear layers take no adapter: {error}") from error
    return adapted


def has_adapter(model: PreTrainedModel) -> bool:
    return hasattr(model, "disable_adapter") and hasattr(model, "peft_config")


def merge_adapter(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the model with its adapter added into the weights: an ordinary checkpoint again."""
    return cast(Adapted, copy.deepcopy(model)).merge_and_unload()


def drop_adapter(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the model as it was before its adapter."""
    return cast(Adapted, copy.deepcopy(model)).unload()


def save_adapter(model: PreTrainedModel, folder: str | Path) -> None:
    """The adapter alone, as peft keeps it on disk: adapter_config.json and its weights."""
    model.save_pretrained(folder, save_embedding_layers=False)


def adapter_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The trained weights alone, by name."""
    return {name: weight.detach().cpu() for name, weight in model.named_parameters() if weight.requires_grad}


def set_adapter_weights(model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> None:
    """Put back what adapter_weights gave."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            own[name].copy_(weight)


def make_trainable(model: PreTrainedModel, config: TrainConfig) -> PreTrainedModel:
    """The model as a trainer takes it: with its adapter, or in float32. Raises BadAddress if its weights are
    quantised."""
    if getattr(model, "is_quantized", False):  # small steps vanish in them, and no adapter can be merged into them
        raise BadAddress(f"policy {model.name_or_path}: its weights are quantised; train the model they were made from")
    leave_cudnn_attention()
    if config.lora_rank:
        model = with_adapter(model, config, config.seed)
    elif next(model.parameters()).dtype != torch.float32:
        model.float()  # AdamW's small steps vanish in 16 bits; bf16 comes from autocast
    model.eval()  # without dropout: the ratio compares two passes through one function
    return model


def make_optimizer(
    parameters: Sequence[torch.nn.Parameter], config: TrainConfig, device: str
) -> tuple[torch.optim.AdamW, LambdaLR]:
    """AdamW over these parameters, with weight decay on matrices alone, and its schedule.

    device: the type of the device that holds them ("cpu", "cuda", ...)
    """
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        betas=config.betas,
        fused=device in ("cpu", "cuda"),
    )
    name = "constant_with_warmup" if config.schedule == "constant" else config.schedule
    return optimizer, get_scheduler(name, optimizer, config.warm_up, config.steps)


def uses_bf16_autocast(precision: Precision, device: str) -> bool:
    """bf16 multiplies in bfloat16 over float32 weights (autocast), fp32 does not; auto where the device is fast in it:
    a GPU, or a CPU with instructions for it."""
    if precision != "auto":
        return precision == "bf16"
    return device == "cuda" or has_bf16_instructions()


def has_bf16_instructions() -> bool:
    """Whether the processor multiplies bfloat16 itself: tiles (AMX) or wide vectors (AVX-512 BF16).

    An EPYC with the vectors and no tiles: 290 to 440 GFLOP/s a core against 70 in float32 (896 x 4,864 by 32 to 1,024
    rows, torch 2.13), and a training step of `embedded:edit-solve` takes a third less."""
    probes = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return any(probe is not None and probe() for probe in probes)


def release_free_memory() -> None:
    """Return what is free to the system, where glibc can; some tens of milliseconds."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


_FEW_SCORES = 1 << 23
"""Attention scores of a layer in a micro-batch up to which eager attention trains faster on a CPU than the fused
kernel. Prompts of 140 tokens with four answers of 20 to 40: a step of SmolLM2-135M takes a sixth less with it. Prompts
of 740 with four of up to 139, 9 million scores: the same."""


@contextlib.contextmanager
def use_attention(model: PreTrainedModel, packed: Packed) -> Iterator[None]:
    """Switch the model's attention within the block to what trains this micro-batch fastest: on a CPU "eager" for few
    tokens, else the model's own."""
    usual = model.config._attn_implementation
    heads = getattr(model.config.get_text_config(), "num_attention_heads", None)
    few = heads is not None and packed.scores * heads <= _FEW_SCORES
    try:
        model.config._attn_implementation = "eager" if few and model.device.type == "cpu" else usual
        yield
    finally:
        model.config._attn_implementation = usual
