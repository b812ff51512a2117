"""Which processor multiplies in bfloat16 by itself."""

import pytest
import torch
from support.training_samples import random_groups, tiny_model
from torch.utils._python_dispatch import TorchDispatchMode

from vpo.policies.registry import policy_at
from vpo.training.config import TrainConfig
from vpo.training.model import uses_bf16_autocast
from vpo.training.trainer import PolicyTrainer


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


def test_weights_are_cast_once_an_update() -> None:
    """And not in each of its micro-batches, for the model and for its reference."""

    class Casts(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            weight = function is torch.ops.aten._to_copy.default and isinstance(args[0], torch.nn.Parameter)
            self.count += weight and args[0].ndim == 2
            return function(*args, **(kwargs or {}))

    model = tiny_model("Qwen2")
    trainer = PolicyTrainer(model, None, TrainConfig(token_budget=40, precision="bf16", lr=1e-3))
    groups = random_groups(model, count=3)
    with Casts() as casts:
        trainer.step(groups)
    assert casts.count == 2 * sum(parameter.ndim == 2 for parameter in model.parameters())


def test_no_policy_trains_or_samples_with_the_attention_of_cudnn(llama) -> None:
    """Its gradients can be NaN, on a GPU alone."""
    for begin in (lambda: PolicyTrainer(tiny_model("Qwen2"), None, TrainConfig()), lambda: policy_at(str(llama))):
        torch.backends.cuda.enable_cudnn_sdp(True)
        begin()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
