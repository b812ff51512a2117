"""A model made ready to be trained, and what its loss will report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from vpo.training import loss, preference
from vpo.training.adapters import with_adapter
from vpo.training.config import DPO, TrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def make_trainable(model: PreTrainedModel, config: TrainConfig) -> PreTrainedModel:
    """The model as a trainer takes it: with its adapter, or in float32; its activations recomputed where asked for."""
    if config.lora_rank:
        model = with_adapter(model, config, config.seed)
    elif next(model.parameters()).dtype != torch.float32:
        model.float()  # AdamW's small steps vanish in 16 bits; bf16 comes from autocast
    model.eval()  # without dropout: the ratio compares two passes through one function
    if config.gradient_checkpointing:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    return model


def figures_of(config: TrainConfig) -> tuple[str, ...]:
    """What the loss reports."""
    if config.method == DPO:
        return preference.METRICS
    return (*loss.METRICS, "kl") if config.kl > 0 else loss.METRICS
