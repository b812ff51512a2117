"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, which is imported only where one is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from problems.contract import BadAddress
from vpo.training.config import LoraSettings


def with_adapter(model: Any, settings: LoraSettings) -> Any:
    """The model with a fresh adapter whose weights alone are trained. Raises BadAddress where peft is missing."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise BadAddress('a LoRA adapter needs peft: pip install -e ".[lora]"') from error
    targets = settings.targets if isinstance(settings.targets, str) else list(settings.targets)
    return get_peft_model(
        model,
        LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=settings.dropout,
            target_modules=targets,
            task_type="CAUSAL_LM",
        ),
    )


def has_adapter(model: Any) -> bool:
    return hasattr(model, "disable_adapter") and hasattr(model, "peft_config")


@contextlib.contextmanager
def without_adapter(model: Any) -> Iterator[Any]:
    """The model as it was before its adapter."""
    with model.disable_adapter():
        yield model
