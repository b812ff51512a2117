"""Half precision on a processor that has to emulate it is said."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from vpo.policies import processor


@pytest.fixture
def listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processor, "_CPUINFO", tmp_path / "cpuinfo")
    return tmp_path / "cpuinfo"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_without_wide_vectors_is_warned_of(listing: Path, dtype: str) -> None:
    listing.write_text("processor\t: 0\nflags\t\t: fpu sse2 avx2 fma\n")
    with pytest.warns(UserWarning, match=f"computes {dtype} in software.*leave dtype out"):
        processor.warn_of_emulation(dtype, "cpu")


@pytest.mark.parametrize(
    ("flags", "dtype", "device"),
    [
        ("flags : avx2 avx512f amx_bf16", "bfloat16", "cpu"),
        ("flags : avx2", "float32", "cpu"),
        ("flags : avx2", "bfloat16", "cuda:1"),
        ("Features : fp asimd", "bfloat16", "cpu"),
        (None, "bfloat16", "cpu"),
    ],
    ids=["wide", "float32", "a GPU", "not x86", "no listing"],
)
def test_what_is_fast_or_unknown_is_not(listing: Path, flags: str | None, dtype: str, device: str) -> None:
    if flags is not None:
        listing.write_text(f"processor : 0\n{flags}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        processor.warn_of_emulation(dtype, device)
