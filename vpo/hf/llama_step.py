"""One more column of a small Llama, without the overhead of a library for every model.

A step of an embedded policy multiplies some hundred thousand numbers, which takes a tenth of the time that transformers
spends around it: it handles masks, positions, outputs and hooks in every layer. This module has only the operations, in
the same order on the same numbers, so the logits equal the model's bit for bit (tested). It serves models like the
embedded policies and leaves every other model to transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from vpo.hf.int8 import int8_size

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_SMALL = 20_000_000
"""Parameters above which the arithmetic dominates the time."""


class LlamaStep:
    """The result of `llama_step`. It reads the weights in place, so replaced weights are used."""

    def __init__(self, model: Any) -> None:
        inner = model.model
        self._embedding, self._norm, self._head = inner.embed_tokens.weight, inner.norm, model.lm_head.weight
        self._layers = [
            (
                *(layer.input_layernorm, layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight),
                *(layer.self_attn.v_proj.weight, layer.self_attn.o_proj.weight, layer.post_attention_layernorm),
                *(layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight, layer.mlp.down_proj.weight, layer.mlp.act_fn),
            )
            for layer in inner.layers
        ]
        attention = inner.layers[0].self_attn
        self._width, self._scale = attention.head_dim, attention.scaling
        rotary = inner.rotary_emb
        places = torch.arange(model.config.max_position_embeddings, device=self._head.device)[:, None].float()
        angles = places * rotary.inv_freq.float()
        self._cos = torch.cat((angles, angles), -1).cos() * rotary.attention_scaling
        sin = angles.sin() * rotary.attention_scaling
        self._sin = torch.cat((-sin, sin), -1)  # the sign of the half that is swapped

    def __call__(
        self, tokens: torch.Tensor, positions: torch.Tensor, layers: list[Any], mask: torch.Tensor | None
    ) -> torch.Tensor:
        """The logits (rows, vocabulary) after one token a row.

        tokens, positions: (rows,) int64
        layers: of the cache; each appends the new column
        mask: (rows, columns with the new one) bool, None if every column is real
        """
        mask = mask[:, None, None] if mask is not None else None
        rows, width = len(tokens), self._width
        cos, sin = self._cos[positions][:, None, None], self._sin[positions][:, None, None]
        hidden = functional.embedding(tokens[:, None], self._embedding)
        for (norm, query, key, value, out, second_norm, gate, up, down, act), cache in zip(
            self._layers, layers, strict=True
        ):
            normed = _normalise(hidden, norm)
            queries = functional.linear(normed, query).view(rows, 1, -1, width).transpose(1, 2)
            keys = functional.linear(normed, key).view(rows, 1, -1, width).transpose(1, 2)
            values = functional.linear(normed, value).view(rows, 1, -1, width).transpose(1, 2)
            queries = queries * cos + queries.roll(width // 2, -1) * sin
            keys, values = cache.update(keys * cos + keys.roll(width // 2, -1) * sin, values)
            seen = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=self._scale)
            hidden = hidden + functional.linear(seen.transpose(1, 2).reshape(rows, 1, -1), out)
            normed = _normalise(hidden, second_norm)
            hidden = hidden + functional.linear(
                act(functional.linear(normed, gate)) * functional.linear(normed, up), down
            )
        return functional.linear(_normalise(hidden, self._norm), self._head)[:, -1]


def llama_step(model: PreTrainedModel) -> LlamaStep | None:
    """The steps of this model; None if it is not a small Llama in float32 on a CPU as transformers builds it: with
    one key per query, plain rotations, without biases, adapters and hooks."""
    if model.device.type != "cpu" or model.dtype != torch.float32 or type(model).__name__ != "LlamaForCausalLM":
        return None
    if int8_size(model):
        return None
    from transformers.models.llama import modeling_llama as made

    config = model.config
    plain = {made.LlamaForCausalLM, made.LlamaModel, made.LlamaDecoderLayer, made.LlamaAttention, made.LlamaMLP}
    plain |= {made.LlamaRMSNorm, made.LlamaRotaryEmbedding, torch.nn.Linear, torch.nn.Embedding, torch.nn.ModuleList}
    for module in model.modules():
        leaf = not module._modules
        if type(module) not in plain and not (leaf and not list(module.parameters(recurse=False))):
            return None
        if module._forward_hooks or module._forward_pre_hooks or getattr(module, "bias", None) is not None:
            return None
    if (
        config.num_key_value_heads != config.num_attention_heads
        or config.rope_parameters["rope_type"] != "default"
        or config._attn_implementation != "sdpa"
        or sum(parameter.numel() for parameter in model.parameters()) > _SMALL
    ):
        return None
    return LlamaStep(model)


def _normalise(hidden: torch.Tensor, norm: Any) -> torch.Tensor:
    """The normalisation of LlamaRMSNorm in float32."""
    scale = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
    scaled: torch.Tensor = norm.weight * (hidden * scale)
    return scaled
