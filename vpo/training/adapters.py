"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, which is imported only where one is asked for."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch

from problems.contract import BadAddress
from vpo.policies.checkpoint import NEEDS_PEFT, Adapted, without_peft_warnings
from vpo.training.config import LoraSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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


@contextlib.contextmanager
def without_adapter(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The model as it was before its adapter."""
    with cast(Adapted, model).disable_adapter():
        yield model


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
