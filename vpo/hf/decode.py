"""Sampling rollouts from a causal language model: prompts computed once, their rollouts decoded together.

Rows of one call share a batch as far as memory allows. A group's prompt is run once and, if the model allows it, kept
once (vpo.hf.rows); rows that have ended leave the batch once there are enough of them, so stragglers decode in a small
batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import torch

from vpo.hf.cache import PrefixCache, prefill
from vpo.hf.rows import ExpandedRows, SharedRows
from vpo.hf.sampling import draw, uniforms
from vpo.policies.encoding import grammar_of, named_prompt_format

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from vpo.embedded.dialects import AnswerGrammar

_LEAVE = 8
"""Ended rows leave once they are one in this many: dropping them copies the cache, keeping them wastes computation."""


class StopSignal(Protocol):
    """Set once sampling is to stop; a threading.Event is one."""

    def is_set(self) -> bool: ...


class Stopped(Exception):
    """The call was cancelled between two steps."""


@dataclass(frozen=True)
class Settings:
    """How tokens are drawn.

    stops: token ids that end a row (the drawn one is kept)
    pad: a token id for positions that do not matter
    rows, cells: limits on one batch, rows and rows x columns
    prompt_cells: limit on prompts x their columns, which bounds the memory of prefilling
    share: rows of a group may attend to one copy of their prompt (rows.can_share)
    prefixes: prompts are computed through it (rows.can_cut); None: together, padded
    """

    temperature: float
    top_p: float
    stops: frozenset[int]
    pad: int
    rows: int
    cells: int
    prompt_cells: int = 1 << 16
    share: bool = False
    prefixes: PrefixCache | None = None


@dataclass(frozen=True, eq=False)
class Ask:
    """One row to sample. prompt: its token ids, one object shared by a group; limit: most tokens to draw; prefill:
    the part of the prompt that belongs to the answer; prefix: how many of the prompt's tokens PrefixCache may keep."""

    prompt: npt.NDArray[np.int32]
    stream: int
    rollout: int
    limit: int
    prefill: str = ""
    prefix: int = 0


@dataclass(frozen=True, eq=False)
class DrawnTokens:
    """token_ids (T,) int32, logprobs (T,) float32; stopped: it drew a stop token."""

    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    stopped: bool


def decode(
    model: PreTrainedModel, asks: Sequence[Ask], seed: int, settings: Settings, cancelled: StopSignal | None = None
) -> list[DrawnTokens]:
    """The tokens of each Ask, in order. Raises Stopped once `cancelled` is set, FloatingPointError on broken logits."""
    results: list[DrawnTokens | None] = [None] * len(asks)
    for batch in batches(asks, settings):
        rows = Decoding(model, seed, settings)
        rows.join([asks[i] for i in batch])
        for place, drawn in rows.run(None, cancelled):
            results[batch[place]] = drawn
    return [result for result in results if result is not None]


def batches(asks: Sequence[Ask], settings: Settings) -> Iterator[list[int]]:
    """Indices of the asks of each batch: long prompts together, groups unbroken if they fit."""
    groups: dict[int, int] = {}  # a prompt's place of first appearance: its address would differ between runs
    for ask in asks:
        groups.setdefault(id(ask.prompt), len(groups))
    order = sorted(range(len(asks)), key=lambda i: (-len(asks[i].prompt), groups[id(asks[i].prompt)], i))
    batch: list[int] = []
    prompts: set[int] = set()
    longest = columns = 0  # columns of the batch's prompts, longest first; columns of a row with its answer
    for i in order:
        length, wanted = len(asks[i].prompt), len(asks[i].prompt) + asks[i].limit
        full = len(batch) >= settings.rows or max(columns, wanted) * (len(batch) + 1) > settings.cells
        crowded = id(asks[i].prompt) not in prompts and longest * (len(prompts) + 1) > settings.prompt_cells
        if batch and (full or crowded):
            yield batch
            batch, prompts, columns = [], set(), 0
        if not batch:
            longest = length
        batch.append(i)
        prompts.add(id(asks[i].prompt))
        columns = max(columns, wanted)
    if batch:
        yield batch


class Decoding:
    """A batch whose rows leave as they end, and which others may join meanwhile if can_join(model)."""

    def __init__(self, model: PreTrainedModel, seed: int, settings: Settings) -> None:
        self._model, self._seed, self._settings = model, seed, settings
        device = model.device
        self._stops = torch.tensor(sorted(settings.stops), dtype=torch.long, device=device)
        self._rows: ExpandedRows | SharedRows | None = None
        self._grammar: AnswerGrammar | None = None
        self._count = 0
        self._logits = torch.empty(0)
        # Of each row in the batch: its number in order of joining, its next draw, its limit, its draws
        self._number = self._taken = self._limit = torch.zeros(0, dtype=torch.long, device=device)
        self._random = torch.zeros((0, 0), dtype=torch.float64, device=device)
        self._tokens = torch.zeros((0, 0), dtype=torch.long, device=device)
        self._logprobs = torch.zeros((0, 0), device=device)
        self._alive = self._stopped = self._told = torch.zeros(0, dtype=torch.bool, device=device)

    def __len__(self) -> int:
        """Rows in the batch."""
        return len(self._number)

    @property
    def cells(self) -> int:
        """Rows x columns of cache in use."""
        return len(self) * self._rows.columns if self._rows is not None else 0

    @torch.inference_mode()
    def join(self, asks: list[Ask]) -> int:
        """Prefill these and let them decode from the next step on; returns the number of the first, the others
        follow."""
        device = self._model.device
        if self._rows is None:
            pays = len(asks) >= 2 * len({id(ask.prompt) for ask in asks})
            kind = SharedRows if self._settings.share and pays else ExpandedRows
            self._rows, self._logits, self._grammar = _prefill(self._model, asks, self._settings, kind)
        else:
            rows, logits, grammar = _prefill(self._model, asks, self._settings, type(self._rows))
            self._rows.join(rows)  # type: ignore[arg-type]  # of one kind
            self._logits = torch.cat([self._logits, logits])
            if self._grammar is not None and grammar is not None:
                self._grammar.join(grammar)
        # One column more than the draws: rows that have ended write there until they leave
        width = max([ask.limit for ask in asks]) + 1
        draws = np.stack([uniforms(self._seed, ask.stream, ask.rollout, width) for ask in asks])
        fresh, width = len(asks), max(width, self._random.shape[-1])
        self._random = _below(self._random, torch.from_numpy(draws).to(device), width)
        self._tokens = _below(self._tokens, self._tokens.new_full((fresh, width), self._settings.pad), width)
        self._logprobs = _below(self._logprobs, self._logprobs.new_zeros((fresh, width)), width)
        number = torch.arange(self._count, self._count + fresh, device=device)
        limit = torch.tensor([ask.limit for ask in asks], device=device)
        flags = torch.zeros(fresh, dtype=torch.bool, device=device)
        self._number, self._limit = torch.cat([self._number, number]), torch.cat([self._limit, limit])
        self._taken = torch.cat([self._taken, torch.zeros_like(limit)])
        self._alive, self._stopped = torch.cat([self._alive, ~flags]), torch.cat([self._stopped, flags])
        self._told = torch.cat([self._told, flags])
        self._count += fresh
        return self._count - fresh

    @torch.inference_mode()
    def run(self, steps: int | None, cancelled: StopSignal | None = None) -> list[tuple[int, DrawnTokens]]:
        """Take that many steps, or all: (number, draws) of the rows that have ended meanwhile. A few of them may
        stay in the batch for a while.

        Raises Stopped once `cancelled` is set, FloatingPointError on broken logits.
        """
        done: list[tuple[int, DrawnTokens]] = []
        settings, steps = self._settings, -1 if steps is None else steps
        while len(self) and steps:
            if cancelled is not None and cancelled.is_set():
                raise Stopped
            assert self._rows is not None
            at = self._taken[:, None]
            logits = self._logits
            if self._grammar is not None:
                logits = logits.masked_fill(~self._grammar.allowed(), float("-inf"))
            tokens, logprobs = draw(logits, self._random.gather(1, at).squeeze(1), settings.temperature, settings.top_p)
            if self._grammar is not None:
                self._grammar.advance(tokens)
            self._tokens.scatter_(1, at, tokens[:, None])
            self._logprobs.scatter_(1, at, logprobs[:, None])
            self._taken = self._taken + self._alive
            stopping = self._alive & torch.isin(tokens, self._stops)
            self._stopped = self._stopped | stopping
            self._alive = self._alive & ~stopping & (self._taken < self._limit)
            left, steps = int(self._alive.sum()), steps - 1
            ended = len(self) - left
            leave = ended and ended * _LEAVE >= len(self)
            if leave or (ended and not steps):
                done += self._tell()
            if leave:
                kept = self._rows.order(self._alive)
                self._keep(kept)
                tokens = tokens[kept]
            if len(self):
                self._logits = self._rows.step(tokens)
        return done

    def _tell(self) -> list[tuple[int, DrawnTokens]]:
        """The draws of rows that have ended and were not yet reported."""
        ended = (~self._alive & ~self._told).nonzero().squeeze(-1)
        ended = ended[self._number[ended].argsort()]
        self._told = ~self._alive
        ids = self._tokens[ended].to("cpu", torch.int32).numpy()
        values = self._logprobs[ended].cpu().numpy()
        rows = zip(*(own[ended].tolist() for own in (self._number, self._taken, self._stopped)), strict=True)
        return [
            (number, DrawnTokens(ids[i, :end].copy(), values[i, :end].copy(), stopped))
            for i, (number, end, stopped) in enumerate(rows)
        ]

    def _keep(self, kept: torch.Tensor) -> None:
        """Drop all rows but these."""
        assert self._rows is not None
        if len(kept):
            self._rows.keep(kept)
        else:
            self._rows = None
        if self._grammar is not None:
            self._grammar.keep(kept)
        self._number, self._taken, self._limit = self._number[kept], self._taken[kept], self._limit[kept]
        self._random, self._tokens, self._logprobs = self._random[kept], self._tokens[kept], self._logprobs[kept]
        self._alive, self._stopped, self._told = self._alive[kept], self._stopped[kept], self._told[kept]


def _below(above: torch.Tensor, rows: torch.Tensor, width: int) -> torch.Tensor:
    """Both tables of rows, made `width` wide with zeros on the right."""
    return torch.cat([torch.nn.functional.pad(table, (0, width - table.shape[-1])) for table in (above, rows)])


def _prefill(
    model: PreTrainedModel, asks: list[Ask], settings: Settings, kind: type[ExpandedRows] | type[SharedRows]
) -> tuple[ExpandedRows | SharedRows, torch.Tensor, AnswerGrammar | None]:
    """Each different prompt once, padded on the left: the batch's rows, their first logits (rows, vocabulary), and
    their grammar."""
    place: dict[int, int] = {}
    prompts: list[npt.NDArray[np.int32]] = []
    prefixes: list[int] = []
    for ask in asks:
        if id(ask.prompt) not in place:
            place[id(ask.prompt)] = len(prompts)
            prompts.append(ask.prompt)
            prefixes.append(ask.prefix)
    columns = max(len(prompt) for prompt in prompts)
    lengths = np.array([len(prompt) for prompt in prompts])
    there = torch.from_numpy(np.arange(columns) >= columns - lengths[:, None]).to(model.device)
    if settings.prefixes is None:
        ids = np.full((len(prompts), columns), settings.pad, dtype=np.int64)
        for i, prompt in enumerate(prompts):
            ids[i, columns - len(prompt) :] = prompt
        cache, logits = prefill(model, torch.from_numpy(ids).to(model.device), there)
    else:
        cache, logits = settings.prefixes.prefill(model, list(zip(prompts, prefixes, strict=True)))
    row = torch.tensor([place[id(ask.prompt)] for ask in asks], device=model.device)
    start = grammar_of(named_prompt_format(model.config))
    return kind(model, cache, row, there), logits[row], None if start is None else start(prompts, row)
