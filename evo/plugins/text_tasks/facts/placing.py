"""The starting weights of a base policy for questions: two heads that look back, and three that look up.

From random weights, looking up a paragraph by two words was never learned on a shared core (bench/results/tasks.md), so
the weights start near it, as those of mazes start with their cells on the board. Names are
placed by their parts: `Galham` is `Gal` and `ham`. Two heads of the first layer look one and two words back and keep
    both separate. In the second layer, two heads look for the place preceded by the last two words, one for the place
    preceded by the last word, and each copies the word there. That gives half of the answers' words; which head to use
    when, and the rest, is learned, and every weight is free. Induction heads: arXiv 2209.11895;
starting attention from a structure: arXiv 2305.09828.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evo.plugins.text_tasks.facts.words import STEMS
from evo.plugins.text_tasks.world import FIRST, LAST

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM

SHARP = 12.0
"""The margin, in nats, by which a head that looks back prefers its place to the neighbouring one, about."""
MATCH, COPIED = 2.0, 0.8
QUIET = 0.3
"""The share of the random weights of a layer's output that stays, if nothing is placed."""
FAINT = 0.1
"""The same within the heads that are placed."""


def place_heads(model: LlamaForCausalLM, words: Sequence[str]) -> None:
    """Place words and heads, with torch's randomness. A model that is too small for them stays as it is."""
    import torch

    c = model.config
    width, size = c.hidden_size, c.hidden_size // c.num_attention_heads
    half = size // 2
    still = [*range(half // 4, half), *range(half + half // 4, size)]  # dimensions that hardly turn
    many = len(still)
    room = (
        width - 1 - 2 * many
    )  # dimensions for words; the first is the same for all words, the last are for the words looked at
    if c.num_hidden_layers < 2 or c.num_attention_heads < 3 or room < many:
        return
    own, seen = slice(1, 1 + room), [slice(width - 2 * many, width - many), slice(width - many, width)]
    table = torch.zeros(len(words), width)
    table[:, own] = _vectors(words, room)
    model.lm_head.weight.data.copy_(table / 2)
    table[:, 0] = 1.0
    model.model.embed_tokens.weight.data.copy_(table)
    for layer in model.model.layers:
        layer.mlp.down_proj.weight.data *= QUIET
        layer.self_attn.o_proj.weight.data *= QUIET

    first, second = (layer.self_attn for layer in model.model.layers[:2])
    brief = _rows(many, room)  # dimensions of a word
    share, unit = math.sqrt(many / room), math.sqrt(width / 2)  # unit: of a word after the norm
    turns = model.model.rotary_emb.inv_freq.float()
    strength = math.sqrt(SHARP * math.sqrt(size) / float((1 - turns.cos()).sum())) / unit
    for head in (0, 1):
        back = turns * (head + 1)
        query, key = torch.zeros(size, width), torch.zeros(size, width)
        query[:half, 0] = strength
        key[:, 0] = strength * torch.cat([back.cos(), back.sin()])
        value, out = torch.zeros(size, width), torch.zeros(width, size)
        value[:many, own] = brief
        out[seen[head], :many] = torch.eye(many) * 0.8 / (unit * share)
        _put(first, slice(head * size, (head + 1) * size), query, key, value, out)
    turned = _rows(many, many)  # distinguishes the word before from the word itself
    for head in (0, 1, 2):
        query, key = torch.zeros(size, width), torch.zeros(size, width)
        query[still, own] = MATCH * 0.8 * brief / share
        key[still, seen[0]] = MATCH * torch.eye(many)
        if head < 2:
            query[still, seen[0]] = key[still, seen[1]] = MATCH * turned
        value = torch.zeros(size, width)
        value[:, own] = _rows(size, room)
        _put(second, slice(head * size, (head + 1) * size), query, key, value, COPIED * value.T)


def _put(attention: torch.nn.Module, at: slice, *placed: torch.Tensor) -> None:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    for name, tensor in zip(names, placed, strict=True):
        weight = attention.get_parameter(f"{name}.weight").data
        part = weight[:, at] if name == "o_proj" else weight[at]
        part.mul_(FAINT).add_(tensor)


def _rows(count: int, size: int) -> torch.Tensor:
    """(count, size), rows of length 1 at right angles."""
    import torch

    square: torch.Tensor = torch.linalg.qr(torch.randn(size, count))[0]
    return square.T


def _vectors(words: Sequence[str], size: int) -> torch.Tensor:
    """(words, size): of length 1, a name's the sum of those of its two parts."""
    import torch

    names = {first + last: (first, last) for first in FIRST for lasts in LAST.values() for last in lasts}
    assert set(STEMS) == set(names)
    parts = [
        *(word for word in words if word not in names),
        *FIRST,
        *(last for lasts in LAST.values() for last in lasts),
    ]
    spread = torch.nn.functional.normalize(torch.randn(len(parts), size))
    for _ in range(200):  # push them apart
        near = spread @ spread.T - torch.eye(len(parts))
        spread = torch.nn.functional.normalize(spread - 0.2 * near @ spread)
    at = dict(zip(parts, spread, strict=True))
    halves = [names.get(word, (word, word)) for word in words]
    return torch.nn.functional.normalize(torch.stack([at[half] + at[other] for half, other in halves]))
