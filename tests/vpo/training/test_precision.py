"""Which processor multiplies in bfloat16 by itself."""

import pytest
import torch

from vpo.training.optimizer import uses_bf16_autocast


@pytest.mark.parametrize(("tiles", "vectors", "fast"), [(1, 0, True), (0, 1, True), (0, 0, False)])
def test_auto_follows_the_instructions(monkeypatch: pytest.MonkeyPatch, tiles: int, vectors: int, fast: bool) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: bool(tiles), raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bool(vectors), raising=False)
    assert uses_bf16_autocast("auto", "cpu") is fast
    assert uses_bf16_autocast("auto", "cuda")
    assert uses_bf16_autocast("bf16", "cpu")
    assert not uses_bf16_autocast("fp32", "cpu")


def test_a_torch_without_the_probes_is_not_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not uses_bf16_autocast("auto", "cpu")
