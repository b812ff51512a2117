"""A batch of any model of transformers: its keys and values, and what a model's configuration says of them.

transformers' own cache copies itself at every step, which is most of the time of a small model. The cache here writes
into spare room and hands out views.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from vpo.hf.llama import GrowingStates

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class InPlaceLayer(DynamicLayer):
    """One layer's keys and values, which may differ in width."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._both: tuple[GrowingStates, GrowingStates] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new columns and return all columns."""
        if self._both is None:
            # The prompt itself: kept as it is, so that prefill attends to contiguous tensors
            self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True
            self._both = GrowingStates(key_states), GrowingStates(value_states)
            self.keys, self.values = key_states, value_states
            return key_states, value_states
        new = key_states.shape[-2]
        self.keys, self.values = (kept.extend(new) for kept in self._both)
        self.keys[:, :, -new:], self.values[:, :, -new:] = key_states, value_states
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep these rows; a row may be taken several times."""
        self.select(beam_idx, 0)

    def select(self, rows: torch.Tensor, first: int) -> None:
        """Keep these rows, in this order, and the columns from `first` on."""
        if self._both is not None:
            self.keys, self.values = (kept.select(rows, first) for kept in self._both)


def make_cache(config: Any) -> Cache:
    """The cache for one decoding: in place if every layer attends to everything, else transformers' own."""
    own = DynamicCache(config=config)
    return Cache(layers=[InPlaceLayer() for _ in own.layers]) if keeps_all_columns(config) else own


def keeps_all_columns(config: Any) -> bool:
    """Whether every layer's state is the keys and values of all tokens: no window, no recurrence."""
    text = config.get_text_config(decoder=True)
    layers = DynamicCache(config=config).layers
    # GPT-Neo's window is in its mask alone
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers) and not hasattr(text, "window_size")


def state_bytes(state: Any, rows: int, columns: int) -> tuple[float, float]:
    """Bytes of a model's state after `rows` rows of `columns` tokens: those that a token takes, and those of a row of
    any length. `columns` should be a number that no size of a model is."""
    if isinstance(state, torch.Tensor):
        size = state.numel() * state.element_size() / rows
        return (size / columns, 0.0) if columns in state.shape else (0.0, size)
    if isinstance(state, Cache):
        state = [vars(layer) for layer in state.layers]
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else ()
    sizes = [state_bytes(part, rows, columns) for part in parts]
    return sum(token for token, _ in sizes), sum(row for _, row in sizes)


def cache_argument(model: torch.nn.Module) -> str:
    """The name of the cache among the arguments of a model, or of the model that it wraps: transformers renamed
    `past_key_values` to `cache` in 5.24 and drops the old name in 5.40."""
    for module in model.modules():
        names = inspect.signature(module.forward).parameters
        for name in ("cache", "past_key_values"):
            if name in names:
                return name
    return "past_key_values"


def accepted(model: Any, **arguments: Any) -> dict[str, Any]:
    """Those of the arguments that the model, or the one inside a PEFT model, takes."""
    names = inspect.signature(getattr(model, "get_base_model", lambda: model)().forward).parameters
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in names.values())
    return {name: value for name, value in arguments.items() if any_name or name in names}


class LibraryBatch:
    """As vpo.hf.llama.LlamaBatch, of any model of transformers.

    cache: the library's
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model, self.cache = model, make_cache(model.config)
        self.drops_columns = keeps_all_columns(model.config)
        # SDPA takes the mask of one column in its final shape, which saves rebuilding it in every step
        self._final_mask = model.config._attn_implementation == "sdpa" and self.drops_columns
        self._arguments = {cache_argument(model): self.cache, **accepted(model, use_cache=True, logits_to_keep=1)}
        self._takes_positions = bool(accepted(model, position_ids=None))

    def append(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None,
        look: Callable[[], None] | None = None,
    ) -> torch.Tensor:
        """The logits (rows, vocabulary) after new columns."""
        if mask is not None and self._final_mask and ids.shape[1] == 1:
            mask = mask[:, None, None]
        given = {"position_ids": positions} if self._takes_positions else {}
        with contextlib.nullcontext() if look is None else _looking(self._model, look):
            output = self._model(input_ids=ids, attention_mask=mask, **given, **self._arguments)
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def select(self, rows: torch.Tensor, first: int) -> None:
        """Keep these rows, in this order, and the columns from `first` on where this can drop columns."""
        if not self.drops_columns:
            cast(Any, self.cache).reorder_cache(rows)
            return
        for layer in cast(Any, self.cache).layers:
            layer.select(rows, first)


@contextlib.contextmanager
def _looking(model: PreTrainedModel, look: Callable[[], None]) -> Iterator[None]:
    """Call it between layers: the prompts of a call can take a minute on a busy machine."""
    lists = (part for part in model.modules() if isinstance(part, torch.nn.ModuleList))
    hooks = [layer.register_forward_pre_hook(lambda *_: look()) for layers in lists for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
