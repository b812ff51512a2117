"""The attention that a model uses while it trains, which need not be the one that it samples with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from transformers.modeling_layers import GradientCheckpointingLayer

from vpo.training.config import TrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SMALL = 20_000_000
"""Parameters below which eager attention trains faster on a CPU than the fused kernel."""


def training_attention(model: PreTrainedModel, config: TrainConfig) -> str | None:
    """The implementation to train with: the configured one, "eager" for a small model on a CPU, else None, which keeps
    the model's own."""
    if config.attention is None and model.device.type == "cpu" and sum(p.numel() for p in model.parameters()) < _SMALL:
        return "eager"
    return config.attention


@contextlib.contextmanager
def use_attention(model: PreTrainedModel, implementation: str | None, *, recompute: bool) -> Iterator[None]:
    """Switch the model's attention within the block, which must hold the backward pass too: that pass runs layers again
    where activations are recomputed.

    implementation: None keeps the model's own; recompute: whether activations are recomputed (gradient checkpointing)
    """
    config, usual = model.config, model.config._attn_implementation
    # transformers recomputes a layer that is in training mode; its parts stay out of it, so that nothing drops out
    layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    try:
        config._attn_implementation = implementation or usual
        for layer in layers:
            layer.training = recompute
        yield
    finally:
        config._attn_implementation = usual
        for layer in layers:
            layer.training = False
