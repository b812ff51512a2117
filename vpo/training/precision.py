"""Whether products are made in bfloat16."""

from __future__ import annotations

import torch

from vpo.training.config import Precision


def multiplies_in_bf16(asked: Precision, device: str) -> bool:
    """bf16 multiplies in bfloat16 over float32 weights (autocast), fp32 does not; auto where the device is fast in it:
    a GPU, or a CPU with AMX."""
    if asked != "auto":
        return asked == "bf16"
    return device == "cuda" or has_amx()


def has_amx() -> bool:
    """Whether the processor multiplies tiles of bfloat16."""
    probe = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(probe and probe())
