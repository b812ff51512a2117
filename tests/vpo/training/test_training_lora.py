"""Training an adapter instead of the weights."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from support.training_samples import logprobs_of, random_groups, tiny_model

from vpo.training.config import TrainConfig
from vpo.training.trainer import PolicyTrainer

pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[lora]'")

CONFIG = TrainConfig(kl=0.0, lr=1e-2, precision="fp32", lora_rank=4)


def trainer_of(model: Any, **changes: Any) -> PolicyTrainer:
    return PolicyTrainer(model, None, CONFIG.model_copy(update=changes), version="start")


def test_the_adapter_alone_moves_and_the_callers_model_samples_with_it() -> None:
    model = tiny_model("Qwen2")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    groups = random_groups(model, 3)
    rollout = groups[0].rollouts[0].rollout
    start = logprobs_of(model, rollout.prompt_ids, rollout.token_ids).detach()
    trainer = trainer_of(model)
    for _ in range(2):
        stats = trainer.step(groups)
    assert stats.policy_version == "start+vpo.2"
    trained = {name for name, p in trainer.model.named_parameters() if p.requires_grad}
    assert trained and all("lora_" in name for name in trained)
    assert not any("lm_head" in name for name in trained)
    now = {name.replace("base_layer.", ""): p for name, p in model.named_parameters() if "lora_" not in name}
    assert now.keys() == before.keys()
    for name, parameter in now.items():
        assert torch.equal(parameter, before[name]), name
    for name, parameter in trainer.model.named_parameters():
        if "lora_B" in name:
            assert parameter.abs().max() > 0, f"{name} has not moved"
    # `model` is still what a policy samples from, and it holds the adapter
    assert not torch.allclose(logprobs_of(model, rollout.prompt_ids, rollout.token_ids), start)
    with trainer.model.disable_adapter():
        torch.testing.assert_close(logprobs_of(model, rollout.prompt_ids, rollout.token_ids), start)


def test_the_reference_is_the_model_without_its_adapter() -> None:
    model = tiny_model()
    original = copy.deepcopy(model)
    groups = random_groups(model, 3)
    trainer = trainer_of(model, kl=0.1)
    assert trainer._reference is None, "no second copy of the weights"
    metrics = [trainer.step(groups).metrics for _ in range(3)]
    assert metrics[0]["kl"] == 0.0 < metrics[1]["kl"]
    # the same figure against an outright copy
    twin = PolicyTrainer(tiny_model(), None, CONFIG.model_copy(update={"kl": 0.1}), reference=original)
    assert [twin.step(groups).metrics["kl"] for _ in range(3)] == pytest.approx(
        [f["kl"] for f in metrics], rel=1e-3, abs=1e-7
    )


def test_every_process_begins_with_the_same_adapter_and_draws_leave_the_callers_alone() -> None:
    adapters: list[torch.Tensor] = []
    for seed in (0, 0, 1):
        torch.manual_seed(100 + len(adapters))
        expected = torch.rand(3, generator=torch.Generator().manual_seed(100 + len(adapters)))
        model = tiny_model(num_hidden_layers=1)
        torch.manual_seed(100 + len(adapters))
        trainer = trainer_of(model, seed=seed)
        assert torch.equal(torch.rand(3), expected), "the caller's generator moved"
        adapters.append(torch.cat([p.flatten() for n, p in trainer.model.named_parameters() if "lora_A" in n]))
    assert torch.equal(adapters[0], adapters[1])
    assert not torch.equal(adapters[0], adapters[2])
