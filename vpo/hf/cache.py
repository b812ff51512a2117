"""The keys and values of a decoding, and what a model's configuration says of them.

transformers' own cache copies itself at every step, which is most of the time of a small model. The cache here writes
into spare room and hands out views. Rows share their prompts: each prompt goes through the model once, and each row
gets a copy of its state.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from vpo.hf.llama_step import llama_step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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


@dataclass(frozen=True, eq=False)
class ComputedPrompts:
    """Prompts that went through the model, each once.

    cache: their keys and values; real: (prompts, columns) bool, which of its columns are tokens
    row: (rows,) the prompt of each row; logits: (rows, vocabulary) of its first token
    """

    cache: Any
    real: torch.Tensor
    row: torch.Tensor
    logits: torch.Tensor


def compute_prompts(
    model: PreTrainedModel, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor, pad: int
) -> ComputedPrompts:
    """Run the prompts in one batch, padded on the left. row: (rows,) the prompt of each row; pad: any token"""
    columns = max(len(prompt) for prompt in prompts)
    padded = np.full((len(prompts), columns), pad, dtype=np.int64)
    for i, prompt in enumerate(prompts):
        padded[i, columns - len(prompt) :] = prompt
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = torch.from_numpy(padded).to(model.device)
    real = torch.from_numpy(np.arange(columns) >= columns - lengths[:, None]).to(model.device)
    cache = make_cache(model.config)
    mask, positions = None if bool(real.all()) else real, (real.cumsum(-1) - 1).clamp(min=0)
    arguments = accepted(model, position_ids=positions, use_cache=True, logits_to_keep=1)
    arguments[cache_argument(model)] = cache
    logits = model(input_ids=ids, attention_mask=mask, **arguments).logits[:, -1]
    return ComputedPrompts(cache, real, row, logits[row])


class SharedRows:
    """The rows of a batch, each with its own copy of its prompt's cache.

    logits: (rows, vocabulary) of the next token
    """

    def __init__(self, model: PreTrainedModel, computed: ComputedPrompts) -> None:
        self._model, self._cache, real, row = model, computed.cache, computed.real, computed.row
        self._llama_step = llama_step(model)
        self._in_place = keeps_all_columns(model.config)
        # SDPA takes the mask of one column in its final shape, which saves rebuilding it in every step
        self._final_mask = model.config._attn_implementation == "sdpa" and self._in_place
        if not torch.equal(row, torch.arange(len(real), device=row.device)):
            self._cache.reorder_cache(row)
        self._mask = real[row] if not bool(real.all()) else None
        self._positions = real.sum(-1)[row]
        self.logits = computed.logits
        self._arguments = {cache_argument(model): self._cache, **accepted(model, use_cache=True)}
        self._takes_positions = bool(accepted(model, position_ids=None))

    def step(self, tokens: torch.Tensor) -> None:
        """Append one token per row (rows,)."""
        if self._mask is not None:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        mask = self._mask[:, None, None] if self._mask is not None and self._final_mask else self._mask
        if self._llama_step is not None:
            self.logits = self._llama_step(tokens, self._positions, self._cache.layers, mask)
        else:
            positions = {"position_ids": self._positions[:, None]} if self._takes_positions else {}
            output = self._model(input_ids=tokens[:, None], attention_mask=mask, **positions, **self._arguments)
            self.logits = output.logits[:, -1]
        self._positions = self._positions + 1

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these, and the columns that none of them has."""
        self._positions = self._positions[rows]
        self._mask = self._mask[rows] if self._mask is not None else None
        if not self._in_place:
            self._cache.reorder_cache(rows)
            return
        first = 0
        if self._mask is not None:
            first = int(self._mask.any(0).to(torch.uint8).argmax())
            self._mask = self._mask[:, first:]
        for layer in self._cache.layers:
            layer.select(rows, first)
