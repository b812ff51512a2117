"""Decoding with fixed shapes: on a GPU a step is captured once and replayed.

A step of a model of half a billion parameters launches more than a thousand kernels, and launching them takes far
longer than their work. A CUDA graph launches all of them at once, from and to the same addresses each time. So keys,
values, masks and results are buffers of a fixed size here, step and column are tensors, and columns that are not there
yet are masked. When half the rows have ended, the others move to the front, and a graph for fewer rows continues.

A capture takes about a quarter of a second, so sizes are coarse: rows that draw nothing and masked columns cost less.
Tests run this on a CPU, and there a trace of a step in the graph's place. A batch that cannot be captured is decoded by
engine.decode's own loop.
"""

from __future__ import annotations

import math
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

from vpo.hf.cache import (
    ComputedPrompts,
    DecodedRows,
    cache_argument,
    free_memory,
    keeps_all_columns,
    leaving_order,
    state_bytes,
)
from vpo.hf.decoding import find_decoding
from vpo.hf.sampling import check_finite, draw
from vpo.policies.encoding import grammar_of, named_prompt_format

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Step = Callable[[], None]
Sampling = tuple[float, float, frozenset[int]]
"""Temperature, top_p, and the tokens that end a row."""
LOOK_EVERY = 8
"""Steps between two looks at which rows still run and whether their logits are finite."""
_GRAPHS = 96
"""Graphs that are kept, of all sizes."""
_COLUMNS = 512
"""Of buffers at least, if memory allows: longer ones take other addresses, and the graphs are captured again."""
_REFUSALS = 3
"""Batches in a row that could not be captured, after which no more are tried."""


def static_decoder(model: PreTrainedModel) -> StaticDecoder | None:
    """The decoder of a model on a GPU; None if it keeps the engine's loop: on a CPU, with windows or a grammar, or with
    another attention than SDPA, which alone takes the mask as it is made here."""
    if model.device.type != "cuda" or model.config._attn_implementation != "sdpa":
        return None
    if find_decoding(model).state != "shared" or not keeps_all_columns(model.config):
        return None
    if grammar_of(named_prompt_format(model.config)) is not None:
        return None

    def keepable() -> float:
        total = torch.cuda.mem_get_info(model.device)[1]
        return min(total / 4, free_memory(model.device) / 2)

    return StaticDecoder(model, _CudaGraphs(model.device).capture, keepable)


def rounded(count: int, unit: int) -> int:
    """The least size of at least `count`: multiples of `unit` up to eight, then four sizes for each doubling."""
    unit = max(unit, 1 << max(0, (count - 1).bit_length() - 3))
    return -(-count // unit) * unit


class StaticDecoder:
    """Decodes batches of one model in buffers that it keeps.

    capture: runs a step once and returns what repeats it
    keepable: bytes that may be held between calls; the rest is for a training, and for other policies
    """

    def __init__(
        self, model: PreTrainedModel, capture: Callable[[Step], Step], keepable: Callable[[], float] = lambda: math.inf
    ) -> None:
        self.model = model
        self._keepable = keepable
        self._refusals = 0
        self._capture = capture
        self._buffers: _Buffers | None = None
        self._steps: dict[tuple[Any, ...], tuple[_Step, Step]] = {}
        self._weights: list[int] = []
        self._bytes_a_token = 0.0

    @property
    def refused(self) -> bool:
        """Whether something of this model cannot be captured."""
        return self._refusals >= _REFUSALS

    def refuse(self, error: Exception) -> None:
        """Leave a batch to the loop. Other work on the GPU may have been in the way: the next one is tried again."""
        self._refusals += 1
        self.release()
        if self.refused:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            warnings.warn(f"sampling without CUDA graphs, which is slower: {reason}", stacklevel=2)

    def release(self) -> None:
        """Give the memory back. What an error leaves in it may spread: a masked NaN is a NaN still."""
        self._steps.clear()
        self._buffers = None

    def decode(
        self,
        prompts: ComputedPrompts,
        uniform: torch.Tensor,
        limit: torch.Tensor,
        sampling: Sampling,
        check: Callable[[], None],
    ) -> DecodedRows:
        """Draw until every row has ended.

        prompts: its cache is emptied
        uniform: (rows, T) float64 in [0, 1); limit: (rows,) tokens at most
        check: called before every step, may raise
        Raises FloatingPointError on logits that are not finite. After an error `release` must be called.
        """
        (count, width), prompt = uniform.shape, prompts.real.shape[1]
        self._bytes_a_token, _ = state_bytes(prompts.cache, *prompts.real.shape)
        weights = [parameter.data_ptr() for parameter in self.model.parameters()]
        if weights != self._weights:  # a graph reads the addresses that it was captured with
            self._steps.clear()
            self._weights = weights
        rows, columns = 8 if count <= 8 else rounded(count, 32), rounded(prompt + width, 128)
        buffers = self._buffers
        if buffers is None or buffers.rows < rows or buffers.columns < columns:
            most = (0, 0) if buffers is None else (buffers.rows, buffers.columns)
            buffers = None
            self.release()
            # smaller in no direction, or calls that differ would take them from each other, and all graphs with them
            size = max(rows, most[0]), max(columns, most[1], _COLUMNS)
            if self._bytes(*size) > self._keepable():
                size = rows, columns
            buffers = self._buffers = _Buffers(self.model, prompts.cache.layers, *size)
        buffers.fill(prompts, uniform, limit)
        _Step(self.model, buffers, rows, columns, sampling).take(prompts.logits)
        for done in range(1, width):
            check()
            if done % LOOK_EVERY == 0:
                check_finite(buffers.logprobs[:count, :done])
                left = int(buffers.alive[:rows].sum())
                if not left:
                    break
                fewer = max(8, 1 << (left - 1).bit_length())
                if fewer <= rows // 2:
                    rows = buffers.shrink(rows, fewer, columns)
            if known := self._steps.get((rows, columns, sampling)):
                known[1]()
                continue
            if len(self._steps) >= _GRAPHS:
                self._steps.clear()
            step = _Step(self.model, buffers, rows, columns, sampling)
            self._steps[rows, columns, sampling] = step, self._capture(step)
        check_finite(buffers.logprobs[:count, :width])
        self._refusals = 0
        if self._bytes(buffers.rows, buffers.columns) > self._keepable():
            self.release()
        tokens, logprobs = buffers.tokens[:count, :width], buffers.logprobs[:count, :width]
        return DecodedRows(tokens, logprobs, buffers.length[:count], buffers.stopped[:count])

    def _bytes(self, rows: int, columns: int) -> int:
        """What buffers of this size take; a draw holds several copies of the logits."""
        vocabulary = int(self.model.config.get_text_config(decoder=True).vocab_size)
        return int(rows * (columns * self._bytes_a_token + 32 * vocabulary))


class _Buffers:
    """The state of a batch. Rows of the batch move to the front as others end; results stay, one more row takes what
    rows without a request draw.

    states: keys and values of each layer, (rows, heads, columns, width); mask: (rows, columns)
    place, alive, drawn, position: (rows,) which request a row answers, whether it still draws, its last token and where
        in the row that is
    tokens, logprobs, uniform: (rows + 1, columns) by request; limit, length, stopped: (rows + 1,)
    step, column: (1,) of the next draw, and of the next keys
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[Any], rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns

        def like(states: torch.Tensor) -> torch.Tensor:
            return states.new_zeros((rows, states.shape[1], columns, states.shape[3]))

        self.states = [(like(layer.keys), like(layer.values)) for layer in layers]

        def zeros(*size: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
            return torch.zeros(size, dtype=dtype, device=model.device)

        self.mask, self.alive = zeros(rows, columns, dtype=torch.bool), zeros(rows, dtype=torch.bool)
        self.place, self.drawn, self.position = zeros(rows), zeros(rows), zeros(rows)
        self.tokens, self.logprobs = zeros(rows + 1, columns), zeros(rows + 1, columns, dtype=torch.float32)
        self.uniform = zeros(rows + 1, columns, dtype=torch.float64)
        self.limit, self.length = zeros(rows + 1), zeros(rows + 1)
        self.stopped = zeros(rows + 1, dtype=torch.bool)
        self.step, self.column = zeros(1), zeros(1)

    def fill(self, prompts: ComputedPrompts, uniform: torch.Tensor, limit: torch.Tensor) -> None:
        """Begin a batch; arguments as of StaticDecoder.decode."""
        layers, real, row = prompts.cache.layers, prompts.real, prompts.row
        (count, width), prompt = uniform.shape, real.shape[1]
        for layer, (keys, values) in zip(layers, self.states, strict=True):
            keys[:count, :, :prompt], values[:count, :, :prompt] = layer.keys[row], layer.values[row]
            layer.keys = layer.values = None
        for buffer in (self.mask, self.alive, self.drawn, self.position, self.logprobs, self.length, self.stopped):
            buffer.zero_()
        self.mask[:count, :prompt] = real[row]
        self.position[:count] = real.sum(-1)[row]
        self.place.fill_(self.rows)
        self.place[:count] = torch.arange(count, device=row.device)
        self.alive[:count] = True
        self.uniform[:count, :width], self.limit[:count] = uniform, limit
        self.step.zero_()
        self.column.fill_(prompt)

    def shrink(self, rows: int, fewer: int, columns: int) -> int:
        """Move the rows that still draw, and others that are to fill up, to the first `fewer` of `rows` places."""
        stay = self.alive[:rows].clone()
        stay[(~stay).nonzero().squeeze(-1)[: fewer - int(stay.sum())]] = True
        order = leaving_order(stay)
        to = (order != torch.arange(fewer, device=order.device)).nonzero().squeeze(-1)
        for buffer in (part for parts in self.states for part in parts):
            buffer[to, :, :columns] = buffer[order[to], :, :columns]
        for buffer in (self.mask, self.place, self.alive, self.drawn, self.position):
            buffer[to] = buffer[order[to]]
        return fewer


class _FixedLayer(DynamicLayer):
    """One layer's keys and values, all columns of them, and the column that is written next."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, column: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values, self._column = keys, values, column
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write one column and return all."""
        assert self.keys is not None and self.values is not None
        self.keys.index_copy_(2, self._column, key_states)
        self.values.index_copy_(2, self._column, value_states)
        return self.keys, self.values


class _Step:
    """One column more for the first `rows` rows, in `columns` columns: the model, the draw, the bookkeeping. Waits for
    nothing, and finds everything where it was."""

    def __init__(
        self,
        model: PreTrainedModel,
        buffers: _Buffers,
        rows: int,
        columns: int,
        sampling: Sampling,
    ) -> None:
        self._model, self._buffers, self._rows = model, buffers, rows
        self._temperature, self._top_p, stops = sampling
        self._stops = torch.tensor(sorted(stops), dtype=torch.long, device=model.device)
        self._mask = buffers.mask[:rows, :columns]
        parts = [(keys[:rows, :, :columns], values[:rows, :, :columns]) for keys, values in buffers.states]
        cache = Cache(layers=[_FixedLayer(*part, buffers.column) for part in parts])
        self._arguments: dict[str, Any] = {cache_argument(model): cache, "use_cache": True}

    def __call__(self) -> None:
        buffers, rows = self._buffers, self._rows
        self._mask.index_fill_(1, buffers.column, True)
        logits = self._model(
            input_ids=buffers.drawn[:rows, None],
            attention_mask=self._mask[:, None, None],
            position_ids=buffers.position[:rows, None],
            **self._arguments,
        ).logits[:, -1]
        buffers.column.add_(1)
        buffers.position[:rows].add_(buffers.alive[:rows])
        self.take(logits)

    def take(self, logits: torch.Tensor) -> None:
        """Draw from logits (rows, vocabulary), of the first rows, and write down what was drawn."""
        buffers, rows = self._buffers, len(logits)
        place, alive, step = buffers.place[:rows], buffers.alive[:rows], buffers.step
        drawn, values = draw(logits, buffers.uniform[place, step], self._temperature, self._top_p, checked=False)
        buffers.tokens[place, step], buffers.logprobs[place, step] = drawn, values
        buffers.length[place] += alive
        stopping = alive & (drawn[:, None] == self._stops).any(1)
        buffers.stopped[place] |= stopping
        step.add_(1)
        alive &= ~stopping & (step < buffers.limit[place])
        buffers.drawn[:rows] = drawn


_CAPTURING = threading.Lock()
"""One capture of the process at a time: a capture begins by waiting for the whole GPU, so two at a time both fail."""


class _CudaGraphs:
    """Captures steps into graphs that share their memory: they are replayed one after the other, and what they keep is
    in buffers outside."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._stream = device, torch.cuda.Stream(device)
        self._latest: Callable[[], torch.cuda.CUDAGraph | None] = lambda: None

    def capture(self, step: Step) -> Step:
        """Run the step once, which loads what a capture may not, then record it."""
        usual, graph, latest = torch.cuda.current_stream(self._device), torch.cuda.CUDAGraph(), self._latest()
        # a pool ends with the last of its graphs; other threads may use the GPU meanwhile
        pool = torch.cuda.graph_pool_handle() if latest is None else latest.pool()
        recording = torch.cuda.graph(graph, pool=pool, stream=self._stream, capture_error_mode="thread_local")
        # a failed capture leaves another stream
        with _CAPTURING, torch.cuda.device(self._device), torch.cuda.stream(usual):
            self._stream.wait_stream(usual)
            with torch.cuda.stream(self._stream):
                step()
            usual.wait_stream(self._stream)
            with recording:
                step()
        self._latest = weakref.ref(graph)

        def replay() -> None:
            with torch.cuda.device(self._device):
                graph.replay()

        return replay
