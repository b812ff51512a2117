"""The rows of a batch while they decode: their caches, and one step of the model for all of them.

`ExpandedRows` copies each prompt's cache to the rows of its group; it works for every model. `SharedRows` leaves it
in one copy that the group attends to together, which saves memory and most of the reads of attention (the prompt is
read once per group). It needs a model whose attention uses transformers' attention interface, and is used only after
a probe has shown that it gives that model's logits.

Rows may join others that have been decoding for a while: columns are aligned on the right, and columns left of a row's
first one are masked. Columns that no remaining row has are dropped with the rows that leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionInterface

from vpo.hf.cache import is_windowed, left_padded, make_cache, prefill
from vpo.hf.int8 import int8_size
from vpo.hf.llama_step import llama_step

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SHARED = "evo_shared_prompt"
_FOREIGN = (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError, KeyError, IndexError)
"""Errors of a model that passes other arguments to its attention, or keeps another cache."""


class ExpandedRows:
    """Every row has its own copy of its prompt.

    cache: of the prompts; this object takes it over
    row: (rows,) which prompt each row belongs to
    real: (prompts, columns) bool, False for padding on the left
    """

    def __init__(self, model: PreTrainedModel, cache: Any, row: torch.Tensor, real: torch.Tensor) -> None:
        self._model = model
        self._cache = cache
        if not torch.equal(row, torch.arange(len(real), device=row.device)):
            self._cache.batch_select_indices(row)
        self._mask = real[row] if not bool(real.all()) else None
        self._positions = real.sum(-1)[row]
        self._joins = can_join(model)
        # SDPA takes the mask of one column in its final shape, which saves rebuilding it in every step
        self._final = model.config._attn_implementation == "sdpa" and self._joins
        self._plain = llama_step(model)

    @property
    def columns(self) -> int:
        """Columns of cache per row."""
        return int(self._cache.get_seq_length())

    def order(self, stay: torch.Tensor) -> torch.Tensor:
        """Those that stay (rows,) bool by their places, in the order that `keep` should leave them in: only rows behind
        the new end move."""
        rows = stay.nonzero().squeeze(-1)
        order = torch.arange(len(rows), device=rows.device)
        order[~stay[: len(rows)]] = rows[rows >= len(rows)]
        return order

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these."""
        self._positions = self._positions[rows]
        self._mask = self._mask[rows] if self._mask is not None else None
        if not self._joins:
            self._cache.batch_select_indices(rows)
            return
        first = 0
        if self._mask is not None and len(rows):
            first = int(self._mask.any(0).to(torch.uint8).argmax())
            self._mask = self._mask[:, first:]
        for layer in self._cache.layers:
            layer.select(rows, first)

    def join(self, other: ExpandedRows) -> None:
        """Take in rows that have not taken a step yet, behind the present ones. Needs can_join(model)."""
        mine, theirs = self._real(), other._real()
        columns = max(mine.shape[-1], theirs.shape[-1])
        self._mask = torch.cat([left_padded(mask, columns, -1, False) for mask in (mine, theirs)])
        self._positions = torch.cat([self._positions, other._positions])
        for layer, joining in zip(self._cache.layers, other._cache.layers, strict=True):
            layer.join(len(theirs), (joining.keys, joining.values))

    def _real(self) -> torch.Tensor:
        """(rows, columns) bool."""
        if self._mask is not None:
            return self._mask
        keys = self._cache.layers[0].keys
        return torch.ones((len(keys), keys.shape[-2]), dtype=torch.bool, device=keys.device)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Append one token per row (rows,); returns the following logits (rows, vocabulary)."""
        if self._mask is not None:
            self._mask = torch.nn.functional.pad(self._mask, (0, 1), value=True)
        positions, self._positions = self._positions, self._positions + 1
        if self._plain is not None:
            return self._plain(tokens, positions, self._cache.layers, self._mask)
        return self._model(
            input_ids=tokens[:, None],
            attention_mask=self._mask[:, None, None] if self._mask is not None and self._final else self._mask,
            position_ids=positions[:, None],
            past_key_values=self._cache,
            use_cache=True,
        ).logits[:, -1]


class SharedRows:
    """The rows of a group attend to one copy of their prompt; arguments and methods as ExpandedRows.

    A row's place among the groups is its slot: prompt x the largest group's size + its place in the group.
    """

    def __init__(self, model: PreTrainedModel, cache: Any, row: torch.Tensor, real: torch.Tensor) -> None:
        self._model = model
        self._own: Any = make_cache(model.config)
        self._positions = real.sum(-1)[row]
        self.prompts = [_laid_out(layer.keys, layer.values) for layer in cache.layers]
        self.padding = None if bool(real.all()) else ~real[:, None, None, :]
        self.absent: torch.Tensor | None = None  # (rows, 1, 1, own columns) of this step, True left of a row's first
        self._since: torch.Tensor | None = None  # (rows,) where a row's separate columns begin; None: all at 0
        self._row = row
        self._arrange()

    def _arrange(self) -> None:
        sizes = torch.bincount(self._row, minlength=len(self.prompts[0][0]))
        if int((sizes == 0).sum()) * 8 >= len(sizes):
            left = sizes.nonzero().squeeze(-1)
            self.prompts = [(keys[left], values[left]) for keys, values in self.prompts]
            self.padding = self.padding[left] if self.padding is not None else None
            self._row = torch.searchsorted(left, self._row)
            sizes = sizes[left]
            if self.padding is not None and len(left):  # the longest prompts may have left
                first = int((~self.padding).any(0).flatten().to(torch.uint8).argmax())
                self.prompts = [_laid_out(keys[:, :, first:], values[:, :, first:]) for keys, values in self.prompts]
                self.padding = self.padding[..., first:]
        self.groups, self.size = len(sizes), int(sizes.max())
        # Rows are in the order of their prompts, so a row's place in its group is its distance from the first
        place = torch.arange(len(self._row), device=self._row.device) - (sizes.cumsum(0) - sizes)[self._row]
        self.slots = None if bool((sizes == self.size).all()) else self._row * self.size + place

    @property
    def columns(self) -> int:
        return int(self._own.get_seq_length()) + int(self.prompts[0][0].shape[-2])

    def order(self, stay: torch.Tensor) -> torch.Tensor:
        return stay.nonzero().squeeze(-1)  # rows stay in the order of their prompts

    def keep(self, rows: torch.Tensor) -> None:
        first = 0
        if self._since is not None and len(rows):
            self._since = self._since[rows]
            first = int(self._since.min())
            self._since = self._since - first
        for layer in self._own.layers:
            layer.select(rows, first)
        self._positions, self._row = self._positions[rows], self._row[rows]
        self._arrange()

    def join(self, other: SharedRows) -> None:
        mine, theirs = (rows.prompts[0][0].shape[-2] for rows in (self, other))
        columns = max(mine, theirs)
        if mine != theirs or self.padding is not None or other.padding is not None:
            self.padding = torch.cat([left_padded(rows._padding(), columns, -1, True) for rows in (self, other)])
        self.prompts = [
            (
                torch.cat([left_padded(states[0], columns, -2, 0.0) for states in pair]),
                torch.cat([left_padded(states[1], columns, -2, 0.0) for states in pair]),
            )
            for pair in zip(self.prompts, other.prompts, strict=True)
        ]
        used = self._own.get_seq_length()
        if used:
            since = self._positions.new_zeros(len(self._row)) if self._since is None else self._since
            self._since = torch.cat([since, since.new_full((len(other._row),), used)])
        for layer in self._own.layers:
            layer.join(len(other._row), None)
        self._row = torch.cat([self._row, other._row + self.groups])
        self._positions = torch.cat([self._positions, other._positions])
        self._arrange()

    def _padding(self) -> torch.Tensor:
        """(prompts, 1, 1, columns) bool."""
        keys = self.prompts[0][0]
        if self.padding is not None:
            return self.padding
        return torch.zeros((len(keys), 1, 1, keys.shape[-2]), dtype=torch.bool, device=keys.device)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        config = self._model.config
        if self._since is not None:
            columns = torch.arange(self._own.get_seq_length() + 1, device=tokens.device)
            self.absent = (columns < self._since[:, None])[:, None, None]
        usual = config._attn_implementation
        config._attn_implementation = _SHARED
        try:
            logits = self._model(
                input_ids=tokens[:, None],
                position_ids=self._positions[:, None],
                past_key_values=self._own,
                use_cache=True,
                shared_prompt=self,
            ).logits
        finally:
            config._attn_implementation = usual
        self._positions = self._positions + 1
        return logits[:, -1]

    def by_group(self, rows: torch.Tensor) -> torch.Tensor:
        """(rows, heads, queries, width) -> (prompts, heads, size x queries, width), zeros in empty slots."""
        _, heads, queries, width = rows.shape
        if self.slots is not None:
            slotted = rows.new_zeros((self.groups * self.size, heads, queries, width))
            slotted[self.slots] = rows
            rows = slotted
        grouped = rows.view(self.groups, self.size, heads, queries, width).transpose(1, 2)
        return grouped.reshape(self.groups, heads, self.size * queries, width)

    def by_row(self, grouped: torch.Tensor, queries: int) -> torch.Tensor:
        """The inverse: (prompts, heads, size x queries, width) -> (rows, heads, queries, width)."""
        _, heads, _, width = grouped.shape
        rows = grouped.view(self.groups, heads, self.size, queries, width).transpose(1, 2)
        rows = rows.reshape(self.groups * self.size, heads, queries, width)
        return rows if self.slots is None else rows[self.slots]


def _laid_out(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A contiguous copy, which the products of every step read fastest: prefill leaves columns first, then heads.
    That layout, or a part of a wider tensor, makes the product with the keys five times as slow on a CPU (bfloat16)."""
    return keys.contiguous(), values.contiguous()


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    shared_prompt: SharedRows | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """One new column's attention to the shared prompt and the row's separate columns, in one softmax.

    query: (rows, heads, 1, width)
    key, value: (rows, key-value heads, separate columns, width)
    Returns (rows, 1, heads, width). Raises NotImplementedError for attention of another kind.
    """
    if shared_prompt is None or query.shape[2] != 1 or attention_mask is not None or kwargs.get("softcap"):
        raise NotImplementedError("attention of a kind that the shared prompt does not cover")
    rows, heads, _, width = query.shape
    key_heads = key.shape[1]
    queries = heads // key_heads
    scaled = query.view(rows, key_heads, queries, width) * (width**-0.5 if scaling is None else scaling)
    prompt_keys, prompt_values = shared_prompt.prompts[module.layer_idx]

    to_prompt = shared_prompt.by_group(scaled) @ prompt_keys.transpose(-1, -2)
    if shared_prompt.padding is not None:
        to_prompt = to_prompt.masked_fill(shared_prompt.padding, float("-inf"))
    to_prompt = shared_prompt.by_row(to_prompt, queries)
    to_own = scaled @ key.transpose(-1, -2)
    if shared_prompt.absent is not None:
        to_own = to_own.masked_fill(shared_prompt.absent, float("-inf"))
    weights = torch.cat([to_prompt, to_own], -1).float().softmax(-1).to(value.dtype)
    columns = to_prompt.shape[-1]
    from_prompt = shared_prompt.by_group(weights[..., :columns]) @ prompt_values
    out = shared_prompt.by_row(from_prompt, queries) + weights[..., columns:] @ value
    return out.reshape(rows, 1, heads, width), None


AttentionInterface.register(_SHARED, _attend)


def can_join(model: PreTrainedModel) -> bool:
    """Whether rows may join others on the way: only if every layer attends to all columns before it."""
    return not is_windowed(model.config)


def can_share(model: PreTrainedModel) -> bool:
    """Whether SharedRows gives this model's logits: one step computed both ways, with ragged groups and padding.

    Three small forwards. Attention that the shared prompt does not cover raises, or moves the whole distribution;
    rounding in 16 or 8 bits moves it by a few hundredths.
    """
    if model.config._attn_implementation != "sdpa" or is_windowed(model.config):
        return False
    device = model.device
    size = model.config.get_text_config(decoder=True).vocab_size
    ids = (torch.arange(3 * 6, device=device).view(3, 6) * 7 + 1) % size
    real = torch.ones((3, 6), dtype=torch.bool, device=device)
    real[1, :4] = False
    row = torch.tensor([0, 0, 0, 1, 2, 2], device=device)
    tokens = (row * 5 + torch.arange(6, device=device)) % size
    try:
        with torch.inference_mode():
            cache, _ = prefill(model, ids, real)
            shared = SharedRows(model, cache, row, real)
            distributions = [
                rows.step(tokens).float().softmax(-1) for rows in (shared, ExpandedRows(model, cache, row, real))
            ]
    except _FOREIGN:
        return False
    return _agree(model, *distributions)


def can_cut(model: PreTrainedModel) -> bool:
    """Whether a prompt in two passes has the logits of one pass, by three small forwards.

    False for layers that attend to a window or keep a state of another kind, and for rotations that change with the
    length of the prompt.
    """
    rotations = getattr(model.config.get_text_config(decoder=True), "rope_parameters", None) or {}
    if any(weight.is_inference() for weight in model.parameters()):  # whether they changed is not recorded
        return False
    if is_windowed(model.config) or rotations.get("rope_type") in ("dynamic", "longrope"):
        return False
    ids = (torch.arange(14, device=model.device)[None] * 7 + 1) % model.config.get_text_config(decoder=True).vocab_size
    real = torch.ones_like(ids, dtype=torch.bool)
    try:
        with torch.inference_mode():
            _, whole = prefill(model, ids, real)
            cache, _ = prefill(model, ids[:, :8], real[:, :8])
            _, rest = prefill(model, ids[:, 8:], real[:, 8:], cache)
    except _FOREIGN:
        return False
    return _agree(model, whole.float().softmax(-1), rest.float().softmax(-1))


def _agree(model: PreTrainedModel, first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two computations of the same distributions (rows, vocabulary) differ by rounding only."""
    difference = (first - second).abs().sum(-1).max() / 2  # total variation
    exact = model.dtype == torch.float32 and not int8_size(model)
    return bool(difference < (1e-3 if exact else 0.3))
