"""The keys and values of a decoding, and what a model's configuration says of them.

transformers' own cache copies itself at every step, which is most of the time of a small model. The cache here writes
into spare room and hands out views.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

_SPARE_COLUMNS = 64
"""Room of new buffers, in addition to what is in use."""


class InPlaceLayer(DynamicLayer):
    """One layer's keys and values, each (rows, heads, columns, width), as views of buffers with room for more columns.

    Columns that a row does not have hold zeros, or what another row left there: the caller masks them.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None
        self._first = 0  # column of the buffers where the views begin

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new columns and return all columns."""
        if self.keys is None or self.values is None:
            # The prompt itself: kept as it is, so that prefill attends to contiguous tensors
            self.dtype, self.device = key_states.dtype, key_states.device
            self.keys, self.values, self.is_initialized = key_states, value_states, True
            return self.keys, self.values
        (rows, _, used, _), new = self.keys.shape, key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < self._first + used + new:
            columns = used + new + _SPARE_COLUMNS
            keys, values = (  # which may differ in width
                states.new_zeros((rows, states.shape[1], columns, states.shape[3]))
                for states in (self.keys, self.values)
            )
            buffers = keys, values
            for buffer, states in zip(buffers, (self.keys, self.values), strict=True):
                buffer[:, :, :used] = states
            self._buffers, self._first = buffers, 0
        begin = self._first + used
        for buffer, states in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:rows, :, begin : begin + new] = states
        self._view(rows, used + new)
        return self.keys, self.values

    def _view(self, rows: int, columns: int) -> None:
        assert self._buffers is not None
        self.keys, self.values = (buffer[:rows, :, self._first : self._first + columns] for buffer in self._buffers)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep these rows; a row may be taken several times."""
        self.select(beam_idx, 0)

    def select(self, rows: torch.Tensor, first: int) -> None:
        """Keep these rows, in this order, and the columns from `first` on. Rows that keep their place cost nothing."""
        if self.keys is None or self.values is None:
            return
        if self._buffers is None or len(rows) > len(self.keys) or 2 * len(rows) < len(self._buffers[0]):
            self.keys, self.values = self.keys[:, :, first:][rows], self.values[:, :, first:][rows]
            self._buffers, self._first = None, 0  # too much room is given back
            return
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(-1)
        if len(moved):
            for states in (self.keys, self.values):
                states[moved, :, first:] = states[rows[moved], :, first:]
        self._first += first
        self._view(len(rows), self.keys.shape[-2] - first)


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


def leave_cudnn_attention() -> None:
    """Keep torch from choosing cuDNN's attention in this process, as it does on an H100 since 2.11. With a mask and 64
    keys more than a multiple of 128, its gradients are NaN where all scores of a query are far below zero, as in a head
    of Qwen2.5 (pytorch/pytorch#196678); on a B200 it samples wrong tokens (#193893)."""
    torch.backends.cuda.enable_cudnn_sdp(False)


def free_memory(device: torch.device) -> float:
    """Bytes of a GPU that no process uses, with those that torch holds for later; else those of main memory that are
    available without swapping, 4 GiB if the system does not report it."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + held)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) * 1024.0
    except (OSError, StopIteration, ValueError):
        return 4.0 * (1 << 30)


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


def leaving_order(stay: torch.Tensor) -> torch.Tensor:
    """The places of those that stay (rows,) bool, in an order in which only rows behind the new end move."""
    rows = stay.nonzero().squeeze(-1)
    order = torch.arange(len(rows), device=rows.device)
    order[~stay[: len(rows)]] = rows[rows >= len(rows)]
    return order
