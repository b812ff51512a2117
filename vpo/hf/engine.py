"""Sampling from a causal language model: each prompt is computed once, its rows are decoded together.

Rows of one call share a batch as far as memory allows, each with its own copy of its prompt's keys and values. Rows
that have ended leave the batch once there are enough of them, so stragglers decode in a small batch. What a row draws
does not depend on its batch (vpo.hf.sampling).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from vpo.hf.cache import ComputedPrompts, DecodedRows, cache_argument, is_windowed, leaving_order, make_cache
from vpo.hf.llama_step import llama_step
from vpo.hf.sampling import check_finite, draw, uniforms
from vpo.hf.static_decoding import StaticDecoder
from vpo.policies.encoding import grammar_of, named_prompt_format

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
    prompt_cells: limit on prompts x their columns, which bounds the memory of computing them
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
    static: StaticDecoder | None = None,
) -> list[SampledTokens]:
    """The draws of each request, in order.

    cancelled: asked before every step
    static: decodes the batches, until it fails at one, which this engine's loop then decodes as all others after it
    Raises Stopped once `cancelled` says so, FloatingPointError on logits that are not finite.
    """
    results: list[SampledTokens | None] = [None] * len(requests)
    for batch in batches(requests, params):
        drawn = _decode_batch(model, [requests[i] for i in batch], seed, params, cancelled, static)
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
    static: StaticDecoder | None,
) -> list[SampledTokens]:
    device, width = model.device, max(request.limit for request in requests)
    limit = torch.tensor([request.limit for request in requests], device=device)
    draws = np.stack([uniforms(seed, request.stream, request.rollout, width) for request in requests])
    uniform = torch.from_numpy(draws).to(device)
    distinct = {id(request.prompt): request.prompt for request in requests}
    numbers = {key: number for number, key in enumerate(distinct)}
    row = torch.tensor([numbers[id(request.prompt)] for request in requests], device=device)
    prompts, found = list(distinct.values()), None

    def check() -> None:
        if cancelled():
            raise Stopped

    if static is not None and not static.refused:
        sampling = params.temperature, params.top_p, params.stops
        try:
            found = static.decode(_compute(model, prompts, row, params.pad), uniform, limit, sampling, check)
        except (Stopped, FloatingPointError, torch.OutOfMemoryError):
            static.release()
            raise
        except Exception as error:  # a foreign model can do anything that a graph cannot hold
            static.refuse(error)
    if found is None:
        found = _decode_rows(model, prompts, _compute(model, prompts, row, params.pad), uniform, limit, params, check)
    tokens, logprobs, length, stopped = found
    ids, chosen, ends = tokens.to("cpu", torch.int32).numpy(), logprobs.cpu().numpy(), length.tolist()
    return [
        SampledTokens(ids[i, : ends[i]].copy(), chosen[i, : ends[i]].copy(), is_stopped)
        for i, is_stopped in enumerate(stopped.tolist())
    ]


def _decode_rows(
    model: PreTrainedModel,
    prompts: list[npt.NDArray[np.int32]],
    computed: ComputedPrompts,
    uniform: torch.Tensor,
    limit: torch.Tensor,
    params: SamplingParams,
    check: Callable[[], None],
) -> DecodedRows:
    """As StaticDecoder.decode, in buffers that grow, for any model."""
    (count, width), device = uniform.shape, uniform.device
    start = grammar_of(named_prompt_format(model.config))
    grammar = None if start is None else start(prompts, computed.row)
    rows = _Rows(model, computed)
    stops = torch.tensor(sorted(params.stops), dtype=torch.long, device=device)
    tokens = torch.full((count, width), params.pad, dtype=torch.long, device=device)
    logprobs = torch.zeros((count, width), device=device)
    length, stopped = torch.zeros_like(limit), torch.zeros(count, dtype=torch.bool, device=device)
    place = torch.arange(count, device=device)  # of the rows in the batch, whose request each is
    alive = ~stopped
    every = _LOOK_EVERY.get(device.type, 1)
    for step in range(width):
        check()
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
            kept = leaving_order(alive)
            rows.keep(kept)
            if grammar is not None:
                grammar.keep(kept)
            place, alive, drawn = place[kept], alive[kept], drawn[kept]
        rows.step(drawn)
    return DecodedRows(tokens, logprobs, length, stopped)


class _Rows:
    """The rows of a batch, each with its own copy of its prompt's cache.

    logits: (rows, vocabulary) of the next token
    """

    def __init__(self, model: PreTrainedModel, computed: ComputedPrompts) -> None:
        self._model, self._cache, real, row = model, computed.cache, computed.real, computed.row
        self._llama_step = llama_step(model)
        self._in_place = not is_windowed(model.config)
        # SDPA takes the mask of one column in its final shape, which saves rebuilding it in every step
        self._final_mask = model.config._attn_implementation == "sdpa" and self._in_place
        if not torch.equal(row, torch.arange(len(real), device=row.device)):
            self._cache.batch_select_indices(row)
        self._mask = real[row] if not bool(real.all()) else None
        self._positions = real.sum(-1)[row]
        self.logits = computed.logits
        self._arguments = {cache_argument(model): self._cache, "use_cache": True}

    def step(self, tokens: torch.Tensor) -> None:
        """Append one token per row (rows,)."""
        if self._mask is not None:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        mask = self._mask[:, None, None] if self._mask is not None and self._final_mask else self._mask
        if self._llama_step is not None:
            self.logits = self._llama_step(tokens, self._positions, self._cache.layers, mask)
        else:
            ids, positions = tokens[:, None], self._positions[:, None]
            output = self._model(input_ids=ids, attention_mask=mask, position_ids=positions, **self._arguments)
            self.logits = output.logits[:, -1]
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


def _compute(
    model: PreTrainedModel, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor, pad: int
) -> ComputedPrompts:
    """row: (rows,) the prompt of each row"""
    columns = max(len(prompt) for prompt in prompts)
    padded = np.full((len(prompts), columns), pad, dtype=np.int64)
    for i, prompt in enumerate(prompts):
        padded[i, columns - len(prompt) :] = prompt
    lengths = np.array([len(prompt) for prompt in prompts])
    ids = torch.from_numpy(padded).to(model.device)
    real = torch.from_numpy(np.arange(columns) >= columns - lengths[:, None]).to(model.device)
    cache = make_cache(model.config)
    arguments: dict[str, Any] = {cache_argument(model): cache, "use_cache": True, "logits_to_keep": 1}
    mask, positions = None if bool(real.all()) else real, (real.cumsum(-1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions, **arguments).logits[:, -1]
    return ComputedPrompts(cache, real, row, logits[row])
