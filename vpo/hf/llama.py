"""A small Llama by itself, without the seconds that a library for every model takes to load and its work in each layer.

A column of an embedded policy multiplies some hundred thousand numbers, which takes a tenth of the time that
transformers spends around it: it handles masks, positions, outputs and hooks. This module has only the operations, in
the same order on the same numbers, so the logits equal those of transformers' model bit for bit. A policy that is only
sampled from has no transformers in its process (vpo.hf.llama_files); a model that is trained lends its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SMALL_MODEL = 20_000_000
"""Parameters above which the arithmetic dominates the time; with fewer rows are so cheap that calls should be large."""
SPARE_COLUMNS = 64
"""Room of new buffers, in addition to what is in use."""


class GrowingStates:
    """Keys or values (rows, heads, columns, width), as a view of a buffer with room for more columns.

    Columns that a row does not have hold what another row left there: the caller masks them.
    """

    def __init__(self, states: torch.Tensor) -> None:
        self.states = states
        self._buffer: torch.Tensor | None = None
        self._first = 0  # column of the buffer where the view begins

    def extend(self, new: int) -> torch.Tensor:
        """All columns and `new` more, which the caller writes."""
        rows, heads, used, width = self.states.shape
        if self._buffer is None or self._buffer.shape[-2] < self._first + used + new:
            self._buffer = self.states.new_empty((rows, heads, used + new + SPARE_COLUMNS, width))
            self._buffer[:, :, :used], self._first = self.states, 0
        self.states = self._buffer[:rows, :, self._first : self._first + used + new]
        return self.states

    def select(self, rows: torch.Tensor, first: int) -> torch.Tensor:
        """Keep these rows, in this order, and the columns from `first` on. Rows that keep their place cost nothing."""
        if self._buffer is None or len(rows) > len(self.states) or 2 * len(rows) < len(self._buffer):
            self.states = self.states[:, :, first:][rows]
            self._buffer, self._first = None, 0  # too much room is given back
            return self.states
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero().squeeze(-1)
        if len(moved):
            self.states[moved, :, first:] = self.states[rows[moved], :, first:]
        self._first += first
        self.states = self.states[: len(rows), :, first:]
        return self.states


class SmallLlama:
    """The weights of a small Llama in float32 on a CPU, and their products.

    config, generation_config: its settings, as attributes named as transformers names them
    Products of the same numbers are one product, of weights that are copied side by side, which changes no bit.
    """

    device, dtype = torch.device("cpu"), torch.float32

    def __init__(self, config: Any, weights: Mapping[str, torch.Tensor], generation_config: Any = None) -> None:
        """weights: by their names in a checkpoint. Those of one product are copied, the others shared."""
        self.config, self.generation_config = config, generation_config
        self._weights, self._size, self._epsilon = dict(weights), (config.hidden_size,), config.rms_norm_eps
        self.embedding, self.head = weights["model.embed_tokens.weight"], weights["lm_head.weight"]
        self.norm = weights["model.norm.weight"]
        self.layers = [self._layer(f"model.layers.{number}") for number in range(config.num_hidden_layers)]
        self.heads, self.width = config.num_attention_heads, config.head_dim
        self.bytes_a_token = 8.0 * len(self.layers) * self.heads * self.width  # of a row's keys and values
        exponents = torch.arange(0, self.width, 2, dtype=torch.float) / self.width
        places = torch.arange(config.max_position_embeddings)[:, None].float()
        angles = places * (1.0 / config.rope_parameters["rope_theta"] ** exponents)
        sin = angles.sin()
        self.cos: torch.Tensor = torch.cat((angles, angles), -1).cos()
        self.sin: torch.Tensor = torch.cat((-sin, sin), -1)  # the sign of the half that is swapped

    def _layer(self, name: str) -> tuple[torch.Tensor, ...]:
        """As a tuple: looking a weight up by its name takes as long as some of the products."""
        return (
            self._weights[f"{name}.input_layernorm.weight"],
            self._join([f"{name}.self_attn.{part}_proj.weight" for part in "qkv"]),
            self._weights[f"{name}.self_attn.o_proj.weight"],
            self._weights[f"{name}.post_attention_layernorm.weight"],
            self._join([f"{name}.mlp.{part}_proj.weight" for part in ("gate", "up")]),
            self._weights[f"{name}.mlp.down_proj.weight"],
        )

    def _join(self, names: Sequence[str]) -> torch.Tensor:
        """These weights side by side; they become views of the result."""
        parts = [self._weights[name] for name in names]
        joined = torch.cat(parts)
        self._weights.update(zip(names, joined.split([len(part) for part in parts]), strict=True))
        return joined

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The weights by their names in a checkpoint. To change them in place changes what is sampled."""
        return self._weights

    def parameters(self) -> Iterable[torch.Tensor]:
        """The weights."""
        return self._weights.values()

    def normalise(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """RMSNorm of the rows (N, width of the model)."""
        return torch.rms_norm(hidden, self._size, weight, self._epsilon)


class LlamaBatch:
    """A small Llama, and what it keeps of the columns of one batch: the keys and values of all layers are one tensor.

    cache: the states, None before the first column
    drops_columns: whether `select` drops those before `first`
    """

    drops_columns = True

    def __init__(self, model: SmallLlama) -> None:
        self._model = model
        self._kept: GrowingStates | None = None

    def append(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None,
        look: Callable[[], None] | None = None,
        *,
        every: bool = False,
    ) -> torch.Tensor:
        """The logits (rows, vocabulary) after new columns, of which there are several only at the beginning.

        ids, positions: (rows, columns)
        mask: (rows, all columns) bool, which are tokens; None if all are
        look: called before each layer
        every: give the logits (rows * columns, vocabulary) after each column
        """
        model, (rows, columns), heads, width = self._model, ids.shape, self._model.heads, self._model.width
        cos, sin = model.cos[positions][:, None], model.sin[positions][:, None]
        if mask is not None:  # in the form that each layer's attention would make of it
            seen = mask[:, None, None]
            if columns > 1:
                seen = seen & torch.ones((columns, columns), dtype=torch.bool).tril()
            mask = torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))
        causal, scale = mask is None and columns > 1, width**-0.5
        if self._kept is None:
            self._kept = GrowingStates(model.cos.new_empty((rows, 2 * heads * len(model.layers), columns, width)))
            kept = self._kept.states
        else:
            kept = self._kept.extend(columns)
        parts = kept.split(heads, 1)  # keys, values, keys of the next layer, ...
        news = kept[:, :, -columns:].split(2 * heads, 1)
        hidden = functional.embedding(ids.flatten(), model.embedding)
        for layer, keys, values, new in zip(model.layers, parts[::2], parts[1::2], news, strict=True):
            if look is not None:
                look()
            norm, into, out, second_norm, gate_up, down = layer
            states = functional.linear(model.normalise(hidden, norm), into)
            states = states.view(rows, columns, 3 * heads, width).transpose(1, 2)
            turned = states[:, : 2 * heads]
            swapped = turned.roll(width // 2, -1).mul_(sin)
            turned.mul_(cos).add_(swapped)
            new.copy_(states[:, heads:])
            attended = functional.scaled_dot_product_attention(
                states[:, :heads], keys, values, attn_mask=mask, is_causal=causal, scale=scale
            )
            hidden += functional.linear(attended.transpose(1, 2).reshape(rows * columns, heads * width), out)
            gate, up = functional.linear(model.normalise(hidden, second_norm), gate_up).chunk(2, -1)
            hidden += functional.linear(functional.silu(gate).mul_(up), down)
        if not every:
            hidden = hidden.view(rows, columns, -1)[:, -1]
        return functional.linear(model.normalise(hidden, model.norm), model.head)

    def select(self, rows: torch.Tensor, first: int) -> None:
        """Keep these rows, in this order, and the columns from `first` on; a row may be taken several times."""
        if self._kept is not None:
            self._kept.select(rows, first)

    @property
    def cache(self) -> torch.Tensor | None:
        return None if self._kept is None else self._kept.states


def is_plain(config: Any, weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether a Llama of these settings and weights can be computed here: small, in float32, with one key per query,
    plain rotations, without biases and adapters."""
    return (
        config.model_type == "llama"
        and config.hidden_act == "silu"
        and not (config.attention_bias or config.mlp_bias)
        and config.rope_parameters.keys() == {"rope_type", "rope_theta"}
        and config.rope_parameters["rope_type"] == "default"
        and config.num_key_value_heads == config.num_attention_heads
        and len(weights) == 3 + 9 * config.num_hidden_layers
        and all(weight.dtype == torch.float32 for weight in weights.values())
        and sum(weight.numel() for weight in weights.values()) < SMALL_MODEL
    )


def small_llama(model: PreTrainedModel) -> SmallLlama | None:
    """The products of a model of transformers with its weights of now; None if `is_plain` is false of it, or something
    was added to it."""
    if model.device.type != "cpu" or type(model).__name__ != "LlamaForCausalLM":
        return None
    weights = model.state_dict()
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    if hooked or model.config._attn_implementation != "sdpa" or not is_plain(model.config, weights):
        return None
    try:
        return SmallLlama(model.config, weights)
    except KeyError:  # a module was replaced
        return None
