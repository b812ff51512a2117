"""Sampling from a causal language model: each prompt is computed once, its rows are decoded together.

Rows of one call share a batch as far as memory allows, each with its own copy of its prompt's state. Rows that have
ended leave the batch once there are enough of them, so stragglers decode in a small batch. What a row draws does not
depend on its batch (vpo.hf.sampling).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from vpo.hf.rows import SharedRows, begin_batch, leaving_order
from vpo.hf.sampling import check_finite, draw, uniforms
from vpo.policies.encoding import grammar_of, named_prompt_format

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.hf.llama import SmallLlama
    from vpo.languages.contract import AnswerGrammar

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


def sample_rows(
    model: PreTrainedModel | SmallLlama,
    requests: Sequence[SampleRequest],
    seed: int,
    params: SamplingParams,
    go_on: Callable[[int], bool] = lambda tokens: True,
) -> Iterator[tuple[int, SampledTokens]]:
    """The number of each request and its draws, as soon as it has ended.

    go_on: asked before every step and between the layers of a prompt, with the tokens drawn so far
    Raises Stopped once `go_on` says no, FloatingPointError on logits that are not finite.
    """
    total = 0
    for batch in batches(requests, params):

        def asked(tokens: int, before: int = total) -> bool:
            return go_on(before + tokens)

        for number, tokens in _decode_batch(model, [requests[i] for i in batch], seed, params, asked):
            total += len(tokens.token_ids)
            yield batch[number], tokens


def batches(requests: Sequence[SampleRequest], params: SamplingParams) -> Iterator[list[int]]:
    """Indices of the requests of each batch: long prompts together, groups unbroken if they fit."""
    prompts = [request.prompt for request in requests]
    order = sorted(range(len(requests)), key=lambda i: -len(prompts[i]))  # stable: a group's requests stay together
    batch: list[int] = []
    begun: set[int] = set()  # prompts of the batch
    longest = columns = 0  # columns of the batch's prompts, longest first; columns of a row with its answer
    for i in order:
        wanted = len(prompts[i]) + requests[i].limit
        full = len(batch) >= params.rows or max(columns, wanted) * (len(batch) + 1) > params.cells
        crowded = id(prompts[i]) not in begun and longest * (len(begun) + 1) > params.prompt_cells
        if batch and (full or crowded):
            yield batch
            batch, begun, columns = [], set(), 0
        if not batch:
            longest = len(prompts[i])
        batch.append(i)
        begun.add(id(prompts[i]))
        columns = max(columns, wanted)
    if batch:
        yield batch


@torch.inference_mode()
def _decode_batch(
    model: PreTrainedModel | SmallLlama,
    requests: list[SampleRequest],
    seed: int,
    params: SamplingParams,
    go_on: Callable[[int], bool],
) -> Iterator[tuple[int, SampledTokens]]:
    device, width = model.device, max(request.limit for request in requests)
    limit = torch.tensor([request.limit for request in requests], device=device)
    chances = np.stack([uniforms(seed, request.stream, request.rollout, width) for request in requests])
    uniform = torch.from_numpy(chances).to(device)
    distinct = {id(request.prompt): request.prompt for request in requests}
    numbers = {key: number for number, key in enumerate(distinct)}
    row = torch.tensor([numbers[id(request.prompt)] for request in requests], device=device)
    prompts, start = list(distinct.values()), grammar_of(named_prompt_format(model.config))
    draws = _Draws(uniform, limit, params, None if start is None else start(prompts, row))

    def look() -> None:
        if not go_on(0):
            raise Stopped

    rows, running, total = SharedRows(begin_batch(model), prompts, row, params.pad, look), len(requests), 0
    for done in range(1, width + 1):
        if not go_on(total):
            raise Stopped
        total += running
        drawn = draws.take(rows.logits)
        if done % draws.every and done < width:
            rows.step(drawn)
            continue
        left, count = draws.running(), len(draws.alive)
        if left < running:
            running = left
            yield from draws.ended()
        if not left:
            break
        if (count - left) * _LEAVE >= count:
            kept = leaving_order(draws.alive)
            rows.keep(kept)
            draws.keep(kept)
            drawn = drawn[kept]
        rows.step(drawn)


class _Draws:
    """What the rows of a batch have drawn.

    alive: (rows,) bool, which rows of the batch still run; every: steps between two looks at them
    """

    def __init__(
        self,
        uniform: torch.Tensor,
        limit: torch.Tensor,
        params: SamplingParams,
        grammar: AnswerGrammar | None,
    ) -> None:
        (count, width), device = uniform.shape, uniform.device
        self._uniform, self._limit, self._params, self._grammar = uniform, limit, params, grammar
        self._stops = torch.tensor(sorted(params.stops), dtype=torch.long, device=device)
        self._tokens = torch.full((count, width), params.pad, dtype=torch.long, device=device)
        self._logprobs = torch.zeros((count, width), device=device)
        self._length, self._stopped = torch.zeros_like(limit), torch.zeros(count, dtype=torch.bool, device=device)
        self._place = torch.arange(count, device=device)  # of the rows in the batch, whose request each is
        self._step, self.alive = 0, ~self._stopped
        self._open = set(range(count))  # the requests that have not ended
        self.every = _LOOK_EVERY.get(device.type, 1)

    def take(self, logits: torch.Tensor) -> torch.Tensor:
        """The next token of each row (rows,), from its logits (rows, vocabulary)."""
        params, step, grammar = self._params, self._step, self._grammar
        if grammar is not None:
            logits = logits.masked_fill(~grammar.allowed(), float("-inf"))
        uniform, checked = self._uniform[:, step], self.every == 1
        tokens, values = draw(logits, uniform, params.temperature, params.top_p, checked=checked)
        if grammar is not None:
            grammar.advance(tokens)
        self._tokens[:, step], self._logprobs[:, step] = tokens, values
        self._length += self.alive
        stopping = self.alive & torch.isin(tokens, self._stops)
        self._stopped |= stopping
        self._step = step + 1
        self.alive = self.alive & ~stopping & (self._step < self._limit)
        return tokens

    def running(self) -> int:
        """How many rows still run. Raises FloatingPointError if their logits were not finite."""
        if self.every > 1:
            check_finite(self._logprobs)
        return int(self.alive.sum())

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows of the batch but these."""
        self._place, self.alive, self._limit = self._place[rows], self.alive[rows], self._limit[rows]
        self._uniform, self._tokens, self._logprobs = self._uniform[rows], self._tokens[rows], self._logprobs[rows]
        self._length, self._stopped = self._length[rows], self._stopped[rows]
        if self._grammar is not None:
            self._grammar.keep(rows)

    def ended(self) -> list[tuple[int, SampledTokens]]:
        """The requests that have ended since the last call, with their draws."""
        results = []
        for row, (number, alive) in enumerate(zip(self._place.tolist(), self.alive.tolist(), strict=True)):
            if alive or number not in self._open:
                continue
            self._open.remove(number)
            end = int(self._length[row])
            ids = self._tokens[row, :end].to("cpu", torch.int32, copy=True).numpy()
            chosen = self._logprobs[row, :end].to("cpu", copy=True).numpy()
            results.append((number, SampledTokens(ids, chosen, bool(self._stopped[row]))))
        return sorted(results, key=lambda result: result[0])
