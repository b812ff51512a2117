"""Two processes that share a batch make the step that one makes with all of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from support.training_processes import run_in_two_processes
from support.training_samples import random_groups, scored_group, tiny_model

from problems.types import ScoredGroup
from vpo.training.config import TrainConfig
from vpo.training.trainer import PolicyTrainer, TrainingDiverged

pytestmark = pytest.mark.long

KINDS = ("token", "sequence", "kl", "one idle", "minibatches", "flat", "diverged")


def config_of(kind: str) -> TrainConfig:
    return TrainConfig(
        kl=0.1 if kind == "kl" else 0.0,
        aggregation="sequence" if kind == "sequence" else "token",
        lr=1e-3,
        precision="fp32",
        grad_clip=0.5,
        minibatches=3 if kind == "minibatches" else 1,
        token_budget=60,
    )


def batches(model: Any, kind: str) -> list[list[ScoredGroup]]:
    """The groups of the two processes."""
    groups = random_groups(model, 5)
    if kind == "one idle":
        return [groups, []]
    if kind == "flat":
        flat = [
            scored_group(g.rollouts[0].rollout.prompt_ids, [r.rollout.token_ids for r in g.rollouts], [[[0.5]]] * n)
            for g in groups
            if (n := len(g.rollouts))
        ]
        return [flat[:2], flat[2:]]
    if kind == "diverged":
        groups[0].rollouts[0].rollout.logprobs[0] = float("nan")
    return [groups[:2], groups[2:]]


def run(kind: str, groups: list[ScoredGroup], accelerator: Any, folder: Path) -> dict[str, Any]:
    model = tiny_model()
    trainer = PolicyTrainer(model, None, config_of(kind), accelerator=accelerator, folder=folder)
    metrics, error = {}, ""
    for _ in range(2):
        try:
            metrics = dict(trainer.step(groups).metrics)
        except TrainingDiverged as diverged:
            error = str(diverged)
    return {"weights": copy.deepcopy(model.state_dict()), "figures": metrics, "error": error, "steps": trainer.steps}


def worker(rank: int, folder: Path) -> dict[str, Any]:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2 and accelerator.process_index == rank
    return {
        kind: run(kind, batches(tiny_model(), kind)[rank], accelerator, Path(folder, kind.replace(" ", "-")))
        for kind in KINDS
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any], Path]:
    """What each of the two processes found, and where."""
    pytest.importorskip("accelerate")
    if not torch.distributed.is_available():
        pytest.skip("this build of torch cannot run several processes")
    folder = tmp_path_factory.mktemp("processes")
    return *run_in_two_processes(worker, folder), folder


@pytest.mark.parametrize("kind", ["token", "sequence", "kl", "one idle"])
def test_the_weights_are_those_of_one_process_with_everything(both, kind: str, tmp_path: Path) -> None:
    together = [group for groups in batches(tiny_model(), kind) for group in groups]
    alone = run(kind, together, None, tmp_path)
    assert alone["steps"] == 2
    for found in both[:2]:
        for name, weight in found[kind]["weights"].items():
            torch.testing.assert_close(weight, alone["weights"][name], atol=1e-6, rtol=0, msg=name)
        for name in ("loss", "ratio", "grad_norm", "behaviour_kl", *(["kl"] if kind == "kl" else [])):
            assert found[kind]["figures"][name] == pytest.approx(alone["figures"][name], rel=1e-3, abs=1e-6), name
    start = tiny_model().state_dict()
    assert max(float((alone["weights"][name] - start[name]).abs().max()) for name in start) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_both_processes_hold_the_same_weights(both, kind: str) -> None:
    first, second, _ = both
    for name, weight in first[kind]["weights"].items():
        assert torch.equal(weight, second[kind]["weights"][name]), name
    assert first[kind]["steps"] == second[kind]["steps"] == {"flat": 0, "diverged": 0}.get(kind, 2)


def test_one_processs_broken_batch_stops_both_with_each_ones_part_saved(both) -> None:
    first, second, folder = both
    start = tiny_model().state_dict()
    for rank, found in enumerate((first, second)):
        assert f"diverged-step-1-process-{rank}.pt" in found["diverged"]["error"]
        assert (folder / "diverged" / f"diverged-step-1-process-{rank}.pt").is_file()
        for name, weight in found["diverged"]["weights"].items():
            assert torch.equal(weight, start[name])
