"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, which is imported only where one is asked for."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from problems.contract import BadAddress
from vpo.training.config import LoraSettings


def with_adapter(model: Any, settings: LoraSettings, seed: int) -> Any:
    """The model with a fresh adapter, drawn from `seed`, whose weights alone are trained. Raises BadAddress where peft
    is missing."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise BadAddress('a LoRA adapter needs peft: pip install -e ".[lora]"') from error
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,  # type: ignore[arg-type]  # any number will do
        target_modules=settings.lora_targets or "all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return get_peft_model(model, config)


def has_adapter(model: Any) -> bool:
    return hasattr(model, "disable_adapter") and hasattr(model, "peft_config")


@contextlib.contextmanager
def without_adapter(model: Any) -> Iterator[Any]:
    """The model as it was before its adapter."""
    with model.disable_adapter():
        yield model


def merge_adapter(model: Any) -> Any:
    """A copy of the model with its adapter added into the weights: an ordinary checkpoint again."""
    return copy.deepcopy(model).merge_and_unload()


def adapter_weights(model: Any) -> dict[str, torch.Tensor]:
    """The trained weights alone, by name."""
    return {name: weight.detach().cpu() for name, weight in model.named_parameters() if weight.requires_grad}


def set_adapter_weights(model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    """Put back what adapter_weights gave."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            own[name].copy_(weight)
