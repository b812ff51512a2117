"""Weights on disk and a vLLM policy: its own as a model for a trainer, a trainer's as a checkpoint for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from problems.contract import BadAddress
from vpo.hf.progress_bars import without_bars
from vpo.vllm.address import EngineSettings


def model_of(settings: EngineSettings, device: str) -> Any:
    """The model that an engine of these settings serves, in float32 on `device`, an adapter merged into it. Raises
    BadAddress where peft is missing for one."""
    import torch
    from transformers import AutoModelForCausalLM

    with without_bars():
        model = AutoModelForCausalLM.from_pretrained(settings.model, dtype=torch.float32)
        if settings.adapter is not None:
            try:
                from peft import PeftModel
            except ImportError as error:
                raise BadAddress("training from a LoRA adapter needs peft: pip install 'evo-search[lora]'") from error
            model = PeftModel.from_pretrained(model, settings.adapter.folder).merge_and_unload()
    return torch.nn.Module.to(model, device)


def _shape_of(settings: EngineSettings, dtype: str = "float32") -> Any:
    """The settings' model without weights: its shapes, at no cost of memory."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(settings.model), dtype=getattr(torch, dtype))


def check_weights(weights: Mapping[str, Any], settings: EngineSettings) -> None:
    """Raises ValueError where they are not those of the settings' model."""
    own = _shape_of(settings).state_dict()
    wrong = own.keys() ^ weights.keys()
    wrong |= {name for name in own.keys() & weights.keys() if own[name].shape != weights[name].shape}
    if wrong:
        raise ValueError(f"not this model's weights: {min(wrong)} and {len(wrong) - 1} more differ")


def write_weights(weights: Mapping[str, Any], settings: EngineSettings, dtype: str, folder: Path) -> None:
    """A checkpoint of the settings' model with other weights, in the engine's own precision."""
    import torch

    model, kind = _shape_of(settings, dtype), getattr(torch, dtype)
    model.load_state_dict({name: weights[name].detach().to("cpu", kind) for name in model.state_dict()}, assign=True)
    model.tie_weights()
    with without_bars():
        model.save_pretrained(folder)
