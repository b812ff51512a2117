"""A key-value cache that changes in place, for decoding many short rows, and the prompts that are kept.

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

_SPARE_COLUMNS, _SPARE_ROWS = 64, 8
"""Room of new buffers, in addition to what is in use. Only rows that join have spare rows, and an eighth of theirs."""


class RoomyLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, columns, width), as views of buffers with room for more rows and
    columns. Rows that leave or join are written in place.

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
            self._move(rows, used + new, 0)
        assert self._buffers is not None
        begin = self._first + used
        keys, values = self._buffers
        keys[:rows, :, begin : begin + new] = key_states
        values[:rows, :, begin : begin + new] = value_states
        self._view(rows, used + new)
        return self.keys, self.values

    def _move(self, rows: int, columns: int, begin: int) -> None:
        """To buffers of that many rows, with room for more columns, what is there beginning at column `begin`."""
        assert self.keys is not None and self.values is not None
        count, heads, used, width = self.keys.shape
        room = columns + _SPARE_COLUMNS
        buffers = []
        for states in (self.keys, self.values):
            buffers.append(states.new_zeros((rows, heads, room, width)))
            buffers[-1][:count, :, begin : begin + used] = states
        self._buffers, self._first = (buffers[0], buffers[1]), 0

    def _view(self, rows: int, columns: int) -> None:
        assert self._buffers is not None
        self.keys, self.values = (buffer[:rows, :, self._first : self._first + columns] for buffer in self._buffers)

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows; a row may be taken several times."""
        self.select(indices, 0)

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

    def join(self, rows: int, states: tuple[torch.Tensor, torch.Tensor] | None) -> None:
        """Append rows, all aligned on the right.

        states: their keys and values, (rows, heads, columns, width); None if they have no columns yet
        """
        if self.keys is None or self.values is None:
            if states is not None:
                raise ValueError("rows with columns cannot join rows that have none")
            return  # none of them has a column
        count, _, used, _ = self.keys.shape
        theirs = states[0].shape[-2] if states else 0
        missing = max(theirs - used, 0)
        if self._buffers is None or len(self._buffers[0]) < count + rows or missing > self._first:
            self._move(count + rows + _SPARE_ROWS + (count + rows) // 8, used + missing, missing)
        else:
            self._first -= missing
        self._view(count + rows, used + missing)
        if states is not None and theirs:
            self.keys[count:, :, -theirs:] = states[0]
            self.values[count:, :, -theirs:] = states[1]

    def stack(self, others: Sequence[RoomyLayer], columns: int) -> None:
        """Append the rows of these layers, all padded on the left to that many columns."""
        layers: Sequence[Any] = (self, *others)
        self.keys = torch.cat([left_padded(layer.keys, columns, -2, 0.0) for layer in layers])
        self.values = torch.cat([left_padded(layer.values, columns, -2, 0.0) for layer in layers])
        self._buffers, self._first = None, 0


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
    """The keys and values of prompts and of their prefixes. A kept prompt costs nothing, and one whose prefix is kept
    is computed from there on.

    A prompt is always computed alone and in two passes, its prefix and the rest, whether or not either is kept. The
    prompt determines the length of its prefix, so what is kept changes no bit of the logits. (In 8 bits a pass of
    another length can move a logit by a nat.)

    limit: bytes; what was used longest ago is dropped, whole prompts before prefixes
    computed, reused: tokens so far
    All is dropped once a weight was replaced or written in place. Call `clear` after writes through `.data`, which
    torch does not count.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.computed = self.reused = 0
        self.clear()

    def clear(self) -> None:
        self._prompts, self._prefixes = _Table(), _Table()
        self._weights: list[tuple[int, int]] = []

    @property
    def bytes(self) -> int:
        return self._prompts.bytes + self._prefixes.bytes

    def prefill(
        self, model: PreTrainedModel, prompts: Sequence[tuple[npt.NDArray[np.int32], int]]
    ) -> tuple[Any, torch.Tensor]:
        """As the function `prefill`. prompts: their token ids and how many of them are the prefix, 0 for none."""
        weights = [(weight.data_ptr(), weight._version) for weight in model.parameters()]
        if weights != self._weights:
            self.clear()
            self._weights = weights
        computed = [self._compute(model, ids, prefix, self._prompts) for ids, prefix in prompts]
        caches = [_cache_of(model, states) for states, _ in computed]
        cache = caches[0]
        if len(caches) > 1:
            columns = max(len(ids) for ids, _ in prompts)
            for layer, *others in zip(*(cache.layers for cache in caches), strict=True):
                layer.stack(others, columns)
        return cache, torch.cat([logits for _, logits in computed])

    def _compute(self, model: PreTrainedModel, ids: npt.NDArray[np.int32], prefix: int, table: _Table) -> _Computed:
        """These tokens from the table. If they are not there, compute them after their prefix and keep them in it."""
        if (kept := table.find(ids)) is not None:
            self.reused += len(ids)
            return kept
        begun = _cache_of(model, self._compute(model, ids[:prefix], 0, self._prefixes)[0]) if prefix else None
        self.computed += len(ids) - prefix
        row = torch.from_numpy(ids[prefix:].astype(np.int64))[None].to(model.device)
        cache, logits = prefill(model, row, torch.ones_like(row, dtype=torch.bool), begun)
        found = _in_one_block([(layer.keys, layer.values) for layer in cache.layers]), logits
        if (size := _size(found)) <= self.limit:
            while self.bytes + size > self.limit:
                (self._prompts or self._prefixes).drop_oldest()
            table.add(ids, found)
        return found


_Computed = tuple[list[tuple[torch.Tensor, torch.Tensor]], torch.Tensor]
"""The keys and values of each layer, (1, heads, columns, width), and the last logits (1, vocabulary)."""


class _Table:
    """What was computed, by token ids, in the order of its last use."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, _Computed] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, ids: npt.NDArray[np.int32]) -> _Computed | None:
        if (found := self._rows.get(ids.tobytes())) is not None:
            self._rows.move_to_end(ids.tobytes())
        return found

    def add(self, ids: npt.NDArray[np.int32], computed: _Computed) -> None:
        self._rows[ids.tobytes()] = computed
        self.bytes += _size(computed)

    def drop_oldest(self) -> None:
        self.bytes -= _size(self._rows.popitem(last=False)[1])


def _cache_of(model: PreTrainedModel, states: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    cache: Any = make_cache(model.config)
    for layer, (keys, values) in zip(cache.layers, states, strict=True):
        layer.update(keys, values)
    return cache


def _in_one_block(states: list[tuple[torch.Tensor, torch.Tensor]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Contiguous copies in one block of memory: many small ones that stay for long keep the C library from giving back
    the memory around them."""
    tensors = [tensor for pair in states for tensor in pair]
    block = torch.cat([tensor.reshape(-1) for tensor in tensors]).split([tensor.numel() for tensor in tensors])
    views = [part.view(tensor.shape) for part, tensor in zip(block, tensors, strict=True)]
    return list(zip(views[::2], views[1::2], strict=True))


def _size(computed: _Computed) -> int:
    states, logits = computed
    return logits.nbytes + sum(keys.nbytes + values.nbytes for keys, values in states)


def left_padded(states: torch.Tensor, columns: int, dimension: int, value: float) -> torch.Tensor:
    """The tensor with `columns` in that dimension, filled with `value` at the front."""
    shape = list(states.shape)
    shape[dimension] = columns - shape[dimension]
    return torch.cat([states.new_full(shape, value), states], dimension) if shape[dimension] else states
