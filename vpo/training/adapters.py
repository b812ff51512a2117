"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft, which is imported only where one is asked for."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import torch

from problems.contract import BadAddress
from vpo.training.config import LoraSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Adapted(Protocol):
    """What peft adds to the model that it wraps, which answers for everything else."""

    def disable_adapter(self) -> contextlib.AbstractContextManager[None]: ...
    def merge_and_unload(self) -> PreTrainedModel: ...


_NEEDS_PEFT = "a LoRA adapter needs peft: pip install 'evo-search[lora]'"


@contextlib.contextmanager
def _without_its_warnings() -> Iterator[None]:
    """Of peft, which asks a model by a name that transformers has replaced."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing", category=FutureWarning)
        yield


def with_adapter(model: PreTrainedModel, settings: LoraSettings, seed: int) -> PreTrainedModel:
    """The model with a fresh adapter, drawn from `seed`, whose weights alone are trained. Raises BadAddress where peft
    is missing."""
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise BadAddress(_NEEDS_PEFT) from error
    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,  # type: ignore[arg-type]  # any number will do
        target_modules=settings.lora_targets or "all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), _without_its_warnings():
        torch.manual_seed(seed)
        return cast("PreTrainedModel", get_peft_model(model, config))


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


def save_adapter(model: PreTrainedModel, folder: str | Path) -> None:
    """The adapter alone, as peft keeps it on disk: adapter_config.json and its weights."""
    model.save_pretrained(folder, save_embedding_layers=False)


def load_adapter(model: PreTrainedModel, folder: str) -> PreTrainedModel:
    """The model with the adapter of a directory added into its weights, and named by that directory, so that an
    adapter trained on it names its base. Raises BadAddress if peft is missing."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise BadAddress(_NEEDS_PEFT) from error
    with _without_its_warnings():
        merged = cast(Adapted, PeftModel.from_pretrained(model, folder)).merge_and_unload()
    merged.name_or_path = str(Path(folder).resolve())
    return merged


def adapter_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The trained weights alone, by name."""
    return {name: weight.detach().cpu() for name, weight in model.named_parameters() if weight.requires_grad}


def set_adapter_weights(model: PreTrainedModel, weights: Mapping[str, torch.Tensor]) -> None:
    """Put back what adapter_weights gave."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            own[name].copy_(weight)
