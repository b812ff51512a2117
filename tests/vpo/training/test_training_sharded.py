"""A model that is shared out over two processes (FSDP2, gloo) learns what one process that holds all of it learns.

Tolerances: gradients 2e-6 absolute in float32 (sums in another order), figures 1e-3 relative, weights 5e-5, a fortieth
of two steps: AdamW makes steps of gradients of 1e-9, which are rounding (bench/results/sharding.md has how much). What
is saved and resumed goes on bit by bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from training_processes import run_in_two_processes
from training_samples import random_groups, tiny_model

from vpo.training.config import TrainConfig
from vpo.training.distribution import ShardSettings
from vpo.training.trainer import PolicyTrainer

pytestmark = pytest.mark.long

EQUAL = ("shared", "plain", "recomputed", "kl", "idle", "short prompt", "tied")
KINDS = (*EQUAL, "epochs")
"""Every process cuts minibatches from its own groups, so with several of them a step is not that of one process."""


def config_of(kind: str, **changes: Any) -> TrainConfig:
    settings: dict[str, Any] = {
        "kl": 0.1 if kind == "kl" else 0.0,
        "lr": 1e-3,
        "precision": "fp32",
        "grad_clip": 0.5,
        "token_budget": 60,  # two or three micro-batches, not as many in both processes
        "shared_prefix": kind != "plain",
        "gradient_checkpointing": kind == "recomputed",
        **({"epochs": 2, "minibatches": 2, "truncate": 2.0} if kind == "epochs" else {}),
        **changes,
    }
    return TrainConfig(**settings)


def model_of(kind: str) -> Any:
    return tiny_model("Qwen2" if kind == "tied" else "Llama")


def batches(kind: str) -> list[list[Any]]:
    groups = random_groups(model_of(kind), 6)
    if kind == "short prompt":
        for rollout in groups[0].rollouts:
            object.__setattr__(rollout.rollout, "prompt_ids", rollout.rollout.prompt_ids[:1])
    return [groups, []] if kind == "idle" else [groups[:4], groups[4:]]


def run(kind: str, groups: list[Any], accelerator: Any = None, **forms: Any) -> dict[str, Any]:
    """Two steps, with the first one's figures and gradient; then a third from what was saved, and without."""
    shards = None if accelerator is None else ShardSettings()

    def trainer_of(**changes: Any) -> PolicyTrainer:
        return PolicyTrainer(
            model_of(kind), None, config_of(kind, **forms, **changes), accelerator=accelerator, shards=shards
        )

    trainer = trainer_of()
    assert trainer.sharded == (accelerator is not None)
    first = dict(trainer.step(groups).metrics)
    gradient = {name: whole(p.grad) for name, p in trainer.model.named_parameters() if p.grad is not None}
    trainer.step(groups)
    weights, state = trainer.weights(), trainer.state()
    weights = {name: tensor.clone() for name, tensor in weights.items()}
    trainer.step(groups)
    resumed = trainer_of()
    resumed._over_processes.load_weights(resumed.model, weights)
    resumed.restore(state)
    resumed.step(groups)
    copied = model_of(kind)
    resumed.copy_weights(copied)
    found = {"figures": first, "gradient": gradient, "weights": weights, "state": state}
    gone_on = {name: tensor.clone() for name, tensor in trainer.weights().items()}
    return {**found, "gone on": gone_on, "resumed": resumed.weights(), "copied": copied.state_dict()}


def whole(tensor: Any) -> torch.Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def worker(rank: int, folder: Path) -> dict[str, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    found = {kind: run(kind, batches(kind)[rank], accelerator) for kind in KINDS}
    held = PolicyTrainer(tiny_model(), None, config_of("plain"), accelerator=accelerator, shards=ShardSettings())
    held.step(batches("plain")[rank])
    local = sum(p.to_local().numel() for p in held.model.parameters())
    moments = sum(s["exp_avg"].to_local().numel() for s in held.optimizer.state.values())
    return {**found, "held": (local, moments)}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each of the two processes found."""
    return run_in_two_processes(worker, tmp_path_factory.mktemp("sharded"))


@pytest.mark.parametrize("kind", EQUAL)
def test_loss_gradient_and_weights_are_those_of_one_process(both, kind: str) -> None:
    # one prompt that cannot be shared makes all processes run the plain form; AdamW makes steps of rounding otherwise
    forms = {"shared_prefix": False} if kind == "short prompt" else {}
    alone = run(kind, [group for part in batches(kind) for group in part], **forms)
    for found in both:
        mine = found[kind]
        for name, value in alone["figures"].items():
            assert mine["figures"][name] == pytest.approx(value, rel=1e-3, abs=1e-6), name
        assert mine["gradient"].keys() == alone["gradient"].keys()
        for name, gradient in alone["gradient"].items():
            torch.testing.assert_close(mine["gradient"][name], gradient, atol=2e-6, rtol=1e-4, msg=name)
        for name, weight in alone["weights"].items():
            torch.testing.assert_close(mine["weights"][name], weight, atol=5e-5, rtol=0, msg=name)
    start = model_of(kind).state_dict()
    assert max(float((alone["weights"][name] - start[name]).abs().max()) for name in start) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_goes_on_bit_by_bit(both, kind: str) -> None:
    for found in both:
        for name, weight in found[kind]["gone on"].items():
            assert torch.equal(found[kind]["resumed"][name], weight), name
            assert torch.equal(found[kind]["copied"][name], weight), name
            assert not torch.equal(found[kind]["weights"][name], weight), "the third step moved it"


def test_each_process_holds_half_of_weights_and_optimiser(both) -> None:
    everything = sum(p.numel() for p in tiny_model().parameters())
    for found in both:
        local, moments = found["held"]
        assert local == moments == everything // 2
