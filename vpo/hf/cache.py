"""A key-value cache that grows in place, for decoding many short rows, and the prefixes of prompts that are kept.

transformers' own dynamic cache concatenates at every step, which copies the whole cache once per token; for small
models that copy is most of the time. This one writes into spare room and hands out views.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
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

    def stack(self, others: Sequence[RoomyLayer], columns: int) -> None:
        """Append the rows of these layers, all padded on the left to that many columns."""
        layers: Sequence[Any] = (self, *others)
        self.keys = torch.cat([left_padded(layer.keys, columns, -2, 0.0) for layer in layers])
        self.values = torch.cat([left_padded(layer.values, columns, -2, 0.0) for layer in layers])
        self._buffers = None


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


def prefill(
    model: PreTrainedModel, ids: torch.Tensor, real: torch.Tensor, cache: Any = None
) -> tuple[Any, torch.Tensor]:
    """The cache of left-padded prompts (prompts, columns) and the logits after each (prompts, vocabulary).

    cache: of the columns before these, all of them real; it is extended
    """
    cache = make_cache(model.config) if cache is None else cache
    logits = model(
        input_ids=ids,
        attention_mask=None if bool(real.all()) else real,
        position_ids=(real.cumsum(-1) - 1).clamp(min=0) + cache.get_seq_length(),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits
    return cache, logits[:, -1]


class PrefixCache:
    """The keys and values of prompts' prefixes: a prompt whose prefix is kept is computed from there on.

    A prompt is always computed alone and in two passes, its prefix and the rest, whether or not the prefix is kept.
    The prompt determines the length of its prefix, so a kept prefix changes no bit of the logits. (In 8 bits a pass of
    another length can move a logit by a nat.)

    limit: bytes; the prefixes that were used longest ago are dropped
    computed, reused: tokens so far
    All prefixes are dropped once a weight was replaced or written in place. Call `clear` after writes through `.data`,
    which torch does not count.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.computed = self.reused = 0
        self.clear()

    def clear(self) -> None:
        self._kept: OrderedDict[bytes, list[tuple[torch.Tensor, torch.Tensor]]] = OrderedDict()
        self._weights: list[tuple[int, int]] = []
        self.bytes = 0

    def prefill(
        self, model: PreTrainedModel, prompts: Sequence[tuple[npt.NDArray[np.int32], int]]
    ) -> tuple[Any, torch.Tensor]:
        """As the function `prefill`. prompts: their token ids and how many of them are the prefix, 0 for none."""
        weights = [(weight.data_ptr(), weight._version) for weight in model.parameters()]
        if weights != self._weights:
            self.clear()
            self._weights = weights
        computed = [self._prefill(model, ids, prefix) for ids, prefix in prompts]
        columns = max(len(ids) for ids, _ in prompts)
        cache = computed[0][0]
        if len(computed) > 1:
            for layer, *others in zip(*(cache.layers for cache, _ in computed), strict=True):
                layer.stack(others, columns)
        return cache, torch.cat([logits for _, logits in computed])

    def _prefill(self, model: PreTrainedModel, ids: npt.NDArray[np.int32], prefix: int) -> tuple[Any, torch.Tensor]:
        cache: Any = make_cache(model.config)
        if prefix:
            for layer, states in zip(cache.layers, self._states(model, ids[:prefix]), strict=True):
                layer.update(*states)
        self.computed += len(ids) - prefix
        return prefill(model, *_one_row(model, ids[prefix:]), cache)

    def _states(self, model: PreTrainedModel, prefix: npt.NDArray[np.int32]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The keys and values of each layer, (1, heads, columns, width)."""
        key = prefix.tobytes()
        states = self._kept.get(key)
        if states is not None:
            self._kept.move_to_end(key)
            self.reused += len(prefix)
            return states
        self.computed += len(prefix)
        cache, _ = prefill(model, *_one_row(model, prefix))
        states = [(layer.keys.contiguous(), layer.values.contiguous()) for layer in cache.layers]
        size = _size(states)
        if size <= self.limit:
            while self.bytes + size > self.limit:
                self.bytes -= _size(self._kept.popitem(last=False)[1])
            self._kept[key] = states
            self.bytes += size
        return states


def _one_row(model: PreTrainedModel, ids: npt.NDArray[np.int32]) -> tuple[torch.Tensor, torch.Tensor]:
    row = torch.from_numpy(ids.astype(np.int64))[None].to(model.device)
    return row, torch.ones_like(row, dtype=torch.bool)


def _size(states: list[tuple[torch.Tensor, torch.Tensor]]) -> int:
    return sum(keys.nbytes + values.nbytes for keys, values in states)


def left_padded(states: torch.Tensor, columns: int, dimension: int, value: float) -> torch.Tensor:
    """The tensor with `columns` in that dimension, filled with `value` at the front."""
    shape = list(states.shape)
    shape[dimension] = columns - shape[dimension]
    return torch.cat([states.new_full(shape, value), states], dimension) if shape[dimension] else states
