"""Sampling rollouts from a causal language model: prompts computed once, their rollouts decoded together.

Rows of one call share a batch as far as memory allows. A group's prompt is run once and, where the model allows it,
kept once (vpo.policies.rows); rows that have ended leave the batch once there are enough of them, so that stragglers
decode in a small one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vpo.policies.drawing import draw, uniforms
from vpo.policies.rows import ExpandedRows, SharedRows, prefilled

_LEAVE = 8
"""Ended rows leave once they are one in this many: dropping them copies the cache, keeping them computes in vain."""


class Stopped(Exception):
    """The call was cancelled between two steps."""


@dataclass(frozen=True)
class Settings:
    """How tokens are drawn.

    stops: token ids that end a row (the one drawn is kept)
    pad: a token id for what does not matter
    rows, cells: limits on one batch, rows and rows x columns
    prompt_cells: limit on prompts x their columns, which bounds what prefilling them takes
    share: rows of a group may attend to one copy of their prompt (rows.can_share)
    """

    temperature: float
    top_p: float
    stops: frozenset[int]
    pad: int
    rows: int
    cells: int
    prompt_cells: int = 1 << 16
    share: bool = False


@dataclass(frozen=True, eq=False)
class Ask:
    """One row to sample. prompt: its token ids, one object shared by a group; limit: most tokens to draw."""

    prompt: npt.NDArray[np.int32]
    stream: int
    rollout: int
    limit: int


@dataclass(frozen=True, eq=False)
class Drawn:
    """token_ids (T,) int32, logprobs (T,) float32; stopped: it drew a stop token."""

    token_ids: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    stopped: bool


def decode(
    model: Any, asks: Sequence[Ask], seed: int, settings: Settings, cancelled: threading.Event | None = None
) -> list[Drawn]:
    """One Drawn per Ask, in order. Raises Stopped once `cancelled` is set, FloatingPointError on broken logits."""
    results: list[Drawn | None] = [None] * len(asks)
    with torch.inference_mode():
        for batch in batches(asks, settings):
            drawn = _decode_batch(model, [asks[i] for i in batch], seed, settings, cancelled)
            for i, one in zip(batch, drawn, strict=True):
                results[i] = one
    return [one for one in results if one is not None]


def batches(asks: Sequence[Ask], settings: Settings) -> Iterator[list[int]]:
    """Indices of the asks of each batch: long prompts together, groups unbroken where they fit."""
    groups: dict[int, int] = {}  # a prompt's place of first appearance: its address would differ between runs
    for ask in asks:
        groups.setdefault(id(ask.prompt), len(groups))
    order = sorted(range(len(asks)), key=lambda i: (-len(asks[i].prompt), groups[id(asks[i].prompt)], i))
    batch: list[int] = []
    prompts: set[int] = set()
    longest = columns = 0  # of the batch's prompts, which come longest first; of a row with its answer
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


def _decode_batch(
    model: Any, asks: list[Ask], seed: int, settings: Settings, cancelled: threading.Event | None
) -> list[Drawn]:
    device = model.device
    steps = max(ask.limit for ask in asks)
    batch, logits = _prefill(model, asks, settings)
    random = np.stack([uniforms(seed, ask.stream, ask.rollout, steps) for ask in asks], axis=1)
    random_steps = torch.from_numpy(random).to(device)  # (steps, rows)
    limits = torch.tensor([ask.limit for ask in asks], device=device)
    stops = torch.tensor(sorted(settings.stops), dtype=torch.long, device=device)
    tokens_out = torch.full((steps, len(asks)), settings.pad, dtype=torch.long, device=device)
    logprobs_out = torch.zeros((steps, len(asks)), device=device)
    lengths = limits.clone()
    stopped = torch.zeros(len(asks), dtype=torch.bool, device=device)
    rows = torch.arange(len(asks), device=device)  # the asks that are still in the batch
    alive = torch.ones(len(asks), dtype=torch.bool, device=device)

    for step in range(steps):
        if cancelled is not None and cancelled.is_set():
            raise Stopped
        tokens, logprobs = draw(logits, random_steps[step, rows], settings.temperature, settings.top_p)
        tokens_out[step, rows], logprobs_out[step, rows] = tokens, logprobs
        ending = alive & torch.isin(tokens, stops)
        stopped[rows[ending]] = True
        lengths[rows[ending]] = step + 1
        alive &= ~ending & (limits[rows] > step + 1)
        left = int(alive.sum())
        if not left:
            break
        if (len(rows) - left) * _LEAVE >= len(rows):
            kept = alive.nonzero().squeeze(-1)
            batch.keep(kept)
            rows, tokens, alive = rows[kept], tokens[kept], alive[kept]
        logits = batch.step(tokens)

    return _collect(tokens_out, logprobs_out, lengths, stopped)


def _prefill(model: Any, asks: list[Ask], settings: Settings) -> tuple[ExpandedRows | SharedRows, torch.Tensor]:
    """Each different prompt once, padded on the left: the batch's rows and their first logits (rows, vocabulary)."""
    place: dict[int, int] = {}
    prompts: list[npt.NDArray[np.int32]] = []
    for ask in asks:
        if id(ask.prompt) not in place:
            place[id(ask.prompt)] = len(prompts)
            prompts.append(ask.prompt)
    columns = max(len(prompt) for prompt in prompts)
    ids = np.full((len(prompts), columns), settings.pad, dtype=np.int64)
    real = np.zeros((len(prompts), columns), dtype=bool)
    for i, prompt in enumerate(prompts):
        ids[i, columns - len(prompt) :] = prompt
        real[i, columns - len(prompt) :] = True
    there = torch.from_numpy(real).to(model.device)
    cache, logits = prefilled(model, torch.from_numpy(ids).to(model.device), there)
    row = torch.tensor([place[id(ask.prompt)] for ask in asks], device=model.device)
    kind = SharedRows if settings.share and len(asks) >= 2 * len(prompts) else ExpandedRows
    return kind(model, cache, row, there), logits[row]


def _collect(tokens: torch.Tensor, logprobs: torch.Tensor, lengths: torch.Tensor, stopped: torch.Tensor) -> list[Drawn]:
    ids = tokens.T.to("cpu", torch.int32).contiguous().numpy()
    values = logprobs.T.cpu().contiguous().numpy()
    ends, flags = lengths.tolist(), stopped.tolist()
    return [
        Drawn(ids[i, :end].copy(), values[i, :end].copy(), flag)
        for i, (end, flag) in enumerate(zip(ends, flags, strict=True))
    ]
