"""Linear layers in 8 bits, which a CPU multiplies three to four times as fast as float32.

Weights have 7 bits and one scale per output, activations 8 bits and one scale per row (the row's largest value): an
AVX2 processor adds pairs of products in 16 bits, which full 8 bits on both sides would overflow. The product is exact
in integers and a row's scale depends on the row only, so a rollout does not depend on what shares its batch.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_WEIGHT, _ACTIVATION = 63, 127
"""The largest whole numbers of a weight and of an activation."""


class Int8Linear(torch.nn.Module):
    """A linear layer's outputs from rounded weights and inputs, in float32. It has no parameters to train."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        self.size = linear.weight.numel() + (0 if linear.bias is None else linear.bias.numel())
        scale = (weight.abs().amax(1).double() / _WEIGHT).clamp(min=1e-12)
        zero = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():  # of torch, which will replace these tensors some day
            warnings.simplefilter("ignore", UserWarning)
            rounded = torch.quantize_per_channel(weight, scale, zero, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(rounded, None)
        self._bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        largest = inputs.abs().amax(-1, keepdim=True).clamp(min=1e-12)
        outputs: torch.Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            inputs / largest, 1 / _ACTIVATION, _ACTIVATION + 1, self._packed
        )
        return outputs * largest if self._bias is None else outputs * largest + self._bias


def round_to_int8(model: PreTrainedModel) -> None:
    """Replace the model's linear layers in place; embeddings, norms and a LoRA adapter's matrices stay in
    float32. The model cannot be trained or saved afterwards."""
    embedding = model.get_input_embeddings().weight
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is torch.nn.Linear and not isinstance(module, torch.nn.ModuleDict):  # an adapter's matrices
                rounded = Int8Linear(child)
                if child.weight is embedding:  # tied: the embedding keeps it
                    rounded.size = 0
                setattr(module, name, rounded)


def int8_size(model: PreTrainedModel) -> int:
    """Parameters that are only there in 8 bits; 0 for every model that `round_to_int8` has not changed."""
    return sum(module.size for module in model.modules() if isinstance(module, Int8Linear))
