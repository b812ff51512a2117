"""Sampling from a causal language model: each prompt is computed once, its rows are decoded together.

Rows of one call share a batch as far as memory allows, each with its own copy of its prompt's keys and values. Rows
that have ended leave the batch once there are enough of them, so stragglers decode in a small batch. What a row draws
does not depend on its batch (vpo.hf.sampling).

transformers' own cache copies itself at every step, which is most of the time of a small model. The cache here writes
into spare room and hands out views.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from vpo.hf.llama_step import llama_step
from vpo.hf.sampling import check_finite, draw, uniforms
from vpo.policies.encoding import grammar_of, named_prompt_format

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SPARE_COLUMNS = 64
"""Room of new buffers, in addition to what is in use."""
_LEAVE = 8
"""Ended rows leave once they are one in this many: dropping them copies the cache, keeping them wastes computation."""
_LOOK_EVERY = {"cpu": 1, "cuda": 8}
"""Steps between two looks at which rows still run and whether their logits are finite. For a look a GPU waits for its
host, which costs more than the columns of rows that have ended."""


class Stopped(Exception):
    """The call was cancelled between two steps."""


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are drawn.

    temperature, top_p: see vpo.hf.sampling.draw
    stops: token ids that end a row (the drawn one is kept)
    pad: a token id for positions that do not matter
    rows, cells: limits on one batch, rows and rows x columns
    prompt_cells: limit on prompts x their columns, which bounds the memory of prefilling
    """

    temperature: float
    top_p: float
    stops: frozenset[int]
    pad: int
    rows: int
    cells: int
    prompt_cells: int = 1 << 16


@dataclass(frozen=True, eq=False)
class SampleRequest:
    """One row to sample.

    prompt: its token ids (P,), one object shared by a group
    stream, rollout: with the seed they fix the row's draws
    limit: most tokens to draw
    """

    prompt: npt.NDArray[np.int32]
    stream: int
    rollout: int
    limit: int


@dataclass(frozen=True, eq=False)
class SampledTokens:
    """A row's draws.

    token_ids: (T,) int32
    logprobs: (T,) float32, nats
    stopped: whether the last one is a stop token
    """

    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    stopped: bool


def decode(
    model: PreTrainedModel,
    requests: Sequence[SampleRequest],
    seed: int,
    params: SamplingParams,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[SampledTokens]:
    """The draws of each request, in order.

    cancelled: asked before every step
    Raises Stopped once `cancelled` says so, FloatingPointError on logits that are not finite.
    """
    results: list[SampledTokens | None] = [None] * len(requests)
    for batch in batches(requests, params):
        drawn = _decode_batch(model, [requests[i] for i in batch], seed, params, cancelled)
        for i, tokens in zip(batch, drawn, strict=True):
            results[i] = tokens
    return [result for result in results if result is not None]


def batches(requests: Sequence[SampleRequest], params: SamplingParams) -> Iterator[list[int]]:
    """Indices of the requests of each batch: long prompts together, groups unbroken if they fit."""
    prompts = [request.prompt for request in requests]
    order = sorted(range(len(requests)), key=lambda i: -len(prompts[i]))  # stable: a group's requests stay together
    batch: list[int] = []
    begun: set[int] = set()  # prompts of the batch
    longest = columns = 0  # columns of the batch's prompts, longest first; columns of a row with its answer
    for i in order:
        length, wanted = len(prompts[i]), len(prompts[i]) + requests[i].limit
        full = len(batch) >= params.rows or max(columns, wanted) * (len(batch) + 1) > params.cells
        crowded = id(prompts[i]) not in begun and longest * (len(begun) + 1) > params.prompt_cells
        if batch and (full or crowded):
            yield batch
            batch, begun, columns = [], set(), 0
        if not batch:
            longest = length
        batch.append(i)
        begun.add(id(prompts[i]))
        columns = max(columns, wanted)
    if batch:
        yield batch


@torch.inference_mode()
def _decode_batch(
    model: PreTrainedModel,
    requests: list[SampleRequest],
    seed: int,
    params: SamplingParams,
    cancelled: Callable[[], bool],
) -> list[SampledTokens]:
    device, count, width = model.device, len(requests), max(request.limit for request in requests)
    rows = _Rows(model, requests, params.pad)
    start = grammar_of(named_prompt_format(model.config))
    grammar = None if start is None else start(rows.prompts, rows.prompt_of)
    stops = torch.tensor(sorted(params.stops), dtype=torch.long, device=device)
    limit = torch.tensor([request.limit for request in requests], device=device)
    draws = np.stack([uniforms(seed, request.stream, request.rollout, width) for request in requests])
    uniform = torch.from_numpy(draws).to(device)
    tokens = torch.full((count, width), params.pad, dtype=torch.long, device=device)
    logprobs = torch.zeros((count, width), device=device)
    length, stopped = torch.zeros_like(limit), torch.zeros(count, dtype=torch.bool, device=device)
    place = torch.arange(count, device=device)  # of the rows in the batch, whose request each is
    alive = ~stopped
    every = _LOOK_EVERY.get(device.type, 1)
    for step in range(width):
        if cancelled():
            raise Stopped
        logits = rows.logits
        if grammar is not None:
            logits = logits.masked_fill(~grammar.allowed(), float("-inf"))
        drawn, values = draw(logits, uniform[place, step], params.temperature, params.top_p, checked=every == 1)
        if grammar is not None:
            grammar.advance(drawn)
        tokens[place, step], logprobs[place, step] = drawn, values
        length[place] += alive
        stopping = alive & torch.isin(drawn, stops)
        stopped[place] |= stopping
        alive = alive & ~stopping & (step + 1 < limit[place])
        if (step + 1) % every and step + 1 < width:
            rows.step(drawn)
            continue
        if every > 1:
            check_finite(logprobs)
        left = int(alive.sum())
        if not left:
            break
        if (len(alive) - left) * _LEAVE >= len(alive):
            kept = _order(alive)
            rows.keep(kept)
            if grammar is not None:
                grammar.keep(kept)
            place, alive, drawn = place[kept], alive[kept], drawn[kept]
        rows.step(drawn)
    ids, chosen, ends = tokens.to("cpu", torch.int32).numpy(), logprobs.cpu().numpy(), length.tolist()
    return [
        SampledTokens(ids[i, : ends[i]].copy(), chosen[i, : ends[i]].copy(), is_stopped)
        for i, is_stopped in enumerate(stopped.tolist())
    ]


def _order(stay: torch.Tensor) -> torch.Tensor:
    """The places of those that stay (rows,) bool, in an order in which only rows behind the new end move."""
    rows = stay.nonzero().squeeze(-1)
    order = torch.arange(len(rows), device=rows.device)
    order[~stay[: len(rows)]] = rows[rows >= len(rows)]
    return order


class _Rows:
    """The rows of a batch, each with its own copy of its prompt's cache.

    prompts: the different prompts of the requests
    prompt_of: (rows,) which of them each row answers
    logits: (rows, vocabulary) of the next token
    """

    def __init__(self, model: PreTrainedModel, requests: Sequence[SampleRequest], pad: int) -> None:
        self._model = model
        self._cache_argument = cache_argument(model)
        self._llama_step = llama_step(model)
        self._in_place = not is_windowed(model.config)
        # SDPA takes the mask of one column in its final shape, which saves rebuilding it in every step
        self._final_mask = model.config._attn_implementation == "sdpa" and self._in_place
        prompts = {id(request.prompt): request.prompt for request in requests}
        numbers = {key: number for number, key in enumerate(prompts)}
        self.prompts = list(prompts.values())
        self.prompt_of = row = torch.tensor([numbers[id(request.prompt)] for request in requests], device=model.device)
        ids, real = _left_padded(self.prompts, pad, model.device)
        self._cache: Any = make_cache(model.config)
        logits = self._forward(
            ids, None if bool(real.all()) else real, (real.cumsum(-1) - 1).clamp(min=0), logits_to_keep=1
        )
        if not torch.equal(row, torch.arange(len(real), device=row.device)):
            self._cache.batch_select_indices(row)
        self._mask = real[row] if not bool(real.all()) else None
        self._positions = real.sum(-1)[row]
        self.logits = logits[row]

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor | None, positions: torch.Tensor, **arguments: Any
    ) -> torch.Tensor:
        """The logits (rows, vocabulary) after the last of these columns."""
        arguments[self._cache_argument] = self._cache
        output = self._model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, **arguments)
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def step(self, tokens: torch.Tensor) -> None:
        """Append one token per row (rows,)."""
        if self._mask is not None:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        mask = self._mask[:, None, None] if self._mask is not None and self._final_mask else self._mask
        if self._llama_step is not None:
            self.logits = self._llama_step(tokens, self._positions, self._cache.layers, mask)
        else:
            self.logits = self._forward(tokens[:, None], mask, self._positions[:, None])
        self._positions = self._positions + 1

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these, and the columns that none of them has."""
        self._positions = self._positions[rows]
        self._mask = self._mask[rows] if self._mask is not None else None
        if not self._in_place:
            self._cache.batch_select_indices(rows)
            return
        first = 0
        if self._mask is not None:
            first = int(self._mask.any(0).to(torch.uint8).argmax())
            self._mask = self._mask[:, first:]
        for layer in self._cache.layers:
            layer.select(rows, first)


def _left_padded(
    prompts: Sequence[npt.NDArray[np.int32]], pad: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids (prompts, columns), and which of them are real, bool."""
    columns = max(len(prompt) for prompt in prompts)
    ids = np.full((len(prompts), columns), pad, dtype=np.int64)
    for i, prompt in enumerate(prompts):
        ids[i, columns - len(prompt) :] = prompt
    lengths = np.array([len(prompt) for prompt in prompts])
    real = np.arange(columns) >= columns - lengths[:, None]
    return torch.from_numpy(ids).to(device), torch.from_numpy(real).to(device)


class InPlaceLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, columns, width), as views of buffers with room for more columns.

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
        (rows, heads, used, width), new = self.keys.shape, key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < self._first + used + new:
            room = (rows, heads, used + new + _SPARE_COLUMNS, width)
            buffers = self.keys.new_zeros(room), self.values.new_zeros(room)
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


def make_cache(config: Any) -> Cache:
    """The cache for one decoding: in place if every layer attends to everything, else transformers' own."""
    if is_windowed(config):
        return DynamicCache(config=config)
    return Cache(layers=[InPlaceLayer() for _ in range(config.get_text_config(decoder=True).num_hidden_layers)])


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


def cache_argument(model: torch.nn.Module) -> str:
    """The name of the cache among the arguments of a model, or of the model that it wraps: transformers renamed
    `past_key_values` to `cache` in 5.24 and drops the old name in 5.40."""
    for module in model.modules():
        names = inspect.signature(module.forward).parameters
        for name in ("cache", "past_key_values"):
            if name in names:
                return name
    return "past_key_values"
