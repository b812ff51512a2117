"""What the processor of this machine computes fast."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


def warn_of_emulation(dtype: str, device: str) -> None:
    """Say once that weights in half precision are slow here.

    An x86 processor without AVX-512 widens every number before it multiplies: 4 to 7 times slower than float32
    (896 x 4,864 by 64 to 512 rows, torch 2.13, an EPYC with AVX2)."""
    if device.partition(":")[0] == "cpu" and dtype != "float32" and not _has_wide_vectors(_CPUINFO):
        warnings.warn(
            f"this processor computes {dtype} in software, several times slower than float32; leave dtype out",
            stacklevel=2,
        )


@cache
def _has_wide_vectors(listing: Path) -> bool:
    """False for an x86 processor that lists its features and not AVX-512; others are not judged."""
    try:
        lines = listing.read_text().splitlines()
    except OSError:
        return True
    flags = next((line.split() for line in lines if line.startswith("flags")), None)
    return flags is None or "avx512f" in flags
