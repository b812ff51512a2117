"""A key-value cache that grows in place, for decoding many short rows.

transformers' own dynamic cache concatenates at every step, which copies the whole cache once per token; for small
models that copy is most of the time. This one writes into spare room and hands out views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SPARE = 64
"""Columns of spare room, in addition to a quarter of those in use, so that growing costs a constant share of the
writing."""


class RoomyLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, columns, width), as views of buffers with room for more columns."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the new columns and return all columns."""
        if self.keys is None or self.values is None:
            # The prompt itself: kept as it is, so that prefill attends to contiguous tensors
            self.dtype, self.device = key_states.dtype, key_states.device
            self.keys, self.values, self.is_initialized = key_states, value_states, True
            return self.keys, self.values
        used, new = self.keys.shape[-2], key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < used + new:
            room = used + new + _SPARE + used // 4
            self._buffers = (_with_room(self.keys, room), _with_room(self.values, room))
        keys, values = self._buffers
        keys[:, :, used : used + new] = key_states
        values[:, :, used : used + new] = value_states
        self.keys, self.values = keys[:, :, : used + new], values[:, :, : used + new]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows; a row may be taken several times."""
        self.select(indices, 0)

    def select(self, rows: torch.Tensor, first: int) -> None:
        """Keep these rows and the columns from `first` on."""
        if self.keys is None or self.values is None:
            return
        used = self.keys.shape[-2] - first
        keys, values = self._buffers or (self.keys, self.values)
        keys, values = keys[:, :, first:][rows], values[:, :, first:][rows]
        if self._buffers is not None:
            self._buffers = (keys, values)
        self.keys, self.values = keys[:, :, :used], values[:, :, :used]

    def join(self, rows: int, states: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        """Append rows, all aligned on the right, with zeros on the left of the shorter ones.

        states: their keys and values, (rows, heads, columns, width); None if they have no columns yet
        """
        if self.keys is None or self.values is None:
            if states is not None:
                raise ValueError("rows with columns cannot join rows that have none")
            return  # none of them has a column
        own = (self.keys, self.values)
        columns = max(self.keys.shape[-2], states[0].shape[-2] if states else 0)
        room = columns + _SPARE + columns // 4
        joined = []
        for mine, theirs in zip(own, states or (None, None), strict=True):
            count, heads, used, width = mine.shape
            buffer = mine.new_zeros((count + rows, heads, room, width))
            buffer[:count, :, columns - used : columns] = mine
            if theirs is not None:
                buffer[count:, :, columns - theirs.shape[-2] : columns] = theirs
            joined.append(buffer)
        self._buffers = (joined[0], joined[1])
        self.keys, self.values = joined[0][:, :, :columns], joined[1][:, :, :columns]


def _with_room(states: torch.Tensor, room: int) -> torch.Tensor:
    rows, heads, used, width = states.shape
    buffer = states.new_empty((rows, heads, room, width))
    buffer[:, :, :used] = states
    return buffer


def make_cache(config: Any) -> Cache:
    """The cache for one decoding: in place if every layer attends to everything, else transformers' own."""
    if is_windowed(config):
        return DynamicCache(config=config)
    return Cache(layers=[RoomyLayer() for _ in range(config.get_text_config(decoder=True).num_hidden_layers)])


def is_windowed(config: Any) -> bool:
    """Whether a layer attends to less than all columns before it."""
    text = config.get_text_config(decoder=True)
    kinds = getattr(text, "layer_types", None) or ["full_attention"]
    window = getattr(text, "sliding_window", None) and getattr(text, "use_sliding_window", True)
    return bool(window) or any(kind != "full_attention" for kind in kinds)


def bytes_a_token(config: Any, itemsize: int) -> int:
    """Bytes that one token of one row takes in the cache."""
    text = config.get_text_config(decoder=True)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * text.num_hidden_layers * heads * width * itemsize


def prefill(model: PreTrainedModel, ids: torch.Tensor, real: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """The cache of left-padded prompts (prompts, columns) and the logits after each (prompts, vocabulary)."""
    cache = make_cache(model.config)
    logits = model(
        input_ids=ids,
        attention_mask=None if bool(real.all()) else real,
        position_ids=(real.cumsum(-1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits
    return cache, logits[:, -1]
