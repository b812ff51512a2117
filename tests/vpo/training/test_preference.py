"""Direct preference optimization and KTO: the losses by hand, pairs that stay together, and TRL's trainers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_samples import gradients, logprobs_of, relative_error, tiny_model, tiny_tokenizer, tokens

from vpo.training.config import TrainConfig
from vpo.training.examples import Example, ExampleGroup, token_weights
from vpo.training.trainer import PolicyTrainer, micro_batches

CONFIG = TrainConfig(method="dpo", kl=0.0, lr=1e-3, grad_clip=1e9, precision="fp32", beta=0.3, aggregation="sequence")


def pair_of(prompt: np.ndarray, better: np.ndarray, worse: np.ndarray) -> ExampleGroup:
    rows = tuple(Example(row, None, np.ones(len(row), np.float32)) for row in (better, worse))
    return ExampleGroup(prompt, rows, 1.0)


def random_pairs(count: int = 3, seed: int = 0) -> list[ExampleGroup]:
    rng = np.random.default_rng(seed)
    return [pair_of(*(tokens(rng, int(rng.integers(2, 9))) for _ in range(3))) for _ in range(count)]


def moved(model: torch.nn.Module, seed: int = 5) -> torch.nn.Module:
    """A copy a little way off, so that policy and reference differ."""
    torch.manual_seed(seed)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return other


def by_hand(model: torch.nn.Module, reference: torch.nn.Module, pairs: list[ExampleGroup], likelihood: float):
    losses = []
    for pair in pairs:
        ours = [logprobs_of(model, pair.prompt_ids, row.token_ids) for row in pair.examples]
        theirs = [logprobs_of(reference, pair.prompt_ids, row.token_ids).detach() for row in pair.examples]
        gained = [(a - b).sum() for a, b in zip(ours, theirs, strict=True)]
        preference = -torch.nn.functional.logsigmoid(0.3 * (gained[0] - gained[1]))
        losses.append(preference - likelihood * ours[0].mean())
    return torch.stack(losses).mean()


@pytest.mark.parametrize("likelihood", [0.0, 1.0])
@pytest.mark.parametrize("budget", [16384, 12])  # 12 holds no pair: it must stay whole all the same
def test_a_step_takes_the_gradient_of_the_pairs_as_written_down(likelihood: float, budget: int) -> None:
    reference, pairs = tiny_model(), random_pairs()
    model = moved(reference)
    expected = by_hand(model, reference, pairs, likelihood)
    expected.backward()
    wanted = gradients(model)
    model.zero_grad(set_to_none=True)
    config = CONFIG.model_copy(update={"likelihood": likelihood, "token_budget": budget})
    trainer = PolicyTrainer(model, None, config, version="start", reference=reference)
    stats = trainer.teach(pairs)
    found = gradients(model)
    assert stats.metrics["loss"] == pytest.approx(float(expected), rel=1e-4)
    assert max(relative_error(found[name], wanted[name]) for name in wanted) < 1e-3
    assert stats.policy_version == "start+dpo.1"


def test_training_comes_to_prefer_the_better_answers() -> None:
    model, pairs = tiny_model(), random_pairs()
    trainer = PolicyTrainer(model, None, CONFIG, version="start")
    assert trainer.teach(pairs).metrics["preferred"] == 0  # the policy is the reference
    for _ in range(5):
        stats = trainer.teach(pairs)
    assert stats.metrics["preferred"] == 1 and stats.metrics["margin"] > 0.1


def test_a_pair_is_never_split_and_a_group_of_rollouts_is() -> None:
    pairs = random_pairs(4)
    weights = token_weights(pairs, "sequence", 8)
    for budget in (1, 20, 40, 1000):
        parts = [group for batch in micro_batches(pairs, weights, budget, together=2) for group, _ in batch]
        assert sorted(len(group.examples) for group in parts) == [2] * 4
    assert len([group for batch in micro_batches(pairs, weights, 1) for group, _ in batch]) == 8


OF_TRL: dict[str, Any] = {
    **{"beta": 0.3, "use_cpu": True, "bf16": False, "report_to": "none"},
    **{"gradient_checkpointing": False, "dataloader_pin_memory": False},
}


def step_of_trl(
    trainer: Any, options: Any, reference: Any, model: Any, rows: Sequence[dict[str, Any]]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss and the gradients of TRL's trainer on all rows at once, for a model that began as `reference`."""
    from datasets import Dataset

    theirs = trainer(
        copy.deepcopy(reference),
        ref_model=copy.deepcopy(reference),
        args=options,
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=tiny_tokenizer(),
    )
    theirs.model.load_state_dict(model.state_dict())
    (batch,) = list(theirs.get_train_dataloader())
    loss = theirs.compute_loss(theirs.model, batch)
    loss.backward()
    return loss, gradients(theirs.model)


def test_without_likelihood_the_loss_is_that_of_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl", reason="TRL is not installed: pip install -e '.[trl]'")
    from trl import DPOConfig, DPOTrainer

    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    tokenizer = tiny_tokenizer()
    rows = [
        {"prompt": "w5 w6 w7 w8", "chosen": " w9 w10 w11", "rejected": " w12 w13"},
        {"prompt": "w20 w21", "chosen": " w22", "rejected": " w23 w24 w25 w26"},
    ]
    reference = tiny_model()
    model = moved(reference)
    options = DPOConfig(output_dir=str(tmp_path), per_device_train_batch_size=len(rows), **OF_TRL)
    loss, wanted = step_of_trl(DPOTrainer, options, reference, model, rows)

    def completion(row: dict[str, str], key: str) -> np.ndarray:
        return np.array([*tokenizer(row[key]).input_ids, tokenizer.eos_token_id], np.int32)

    pairs = [
        pair_of(
            np.array(tokenizer(row["prompt"]).input_ids, np.int32),
            completion(row, "chosen"),
            completion(row, "rejected"),
        )
        for row in rows
    ]
    config = CONFIG.model_copy(update={"likelihood": 0.0})
    stats = PolicyTrainer(model, None, config, version="start", reference=reference).teach(pairs)
    found = gradients(model)
    assert stats.metrics["loss"] == pytest.approx(float(loss), rel=1e-4)
    assert set(found) == set(wanted)
    assert max(relative_error(found[name], wanted[name]) for name in wanted) < 1e-3


KTO = CONFIG.model_copy(update={"method": "kto"})


def unpaired(weights: list[float], seed: int = 0) -> list[ExampleGroup]:
    """Prompts with one answer each, desirable where the weight is positive."""
    rng = np.random.default_rng(seed)
    prompts, rows = ([tokens(rng, int(rng.integers(2, 9))) for _ in weights] for _ in range(2))
    return [
        ExampleGroup(prompt, (Example(row, None, np.full(len(row), weight, np.float32)),), 1.0)
        for prompt, row, weight in zip(prompts, rows, weights, strict=True)
    ]


def kto_by_hand(model: torch.nn.Module, reference: torch.nn.Module, groups: list[ExampleGroup]):
    def reward(prompt: np.ndarray, row: np.ndarray) -> torch.Tensor:
        return (logprobs_of(model, prompt, row) - logprobs_of(reference, prompt, row).detach()).sum()

    rows = [group.examples[0].token_ids for group in groups]
    mismatched = [reward(group.prompt_ids, rows[i - 1]).detach() for i, group in enumerate(groups)]
    point = torch.stack(mismatched).mean().clamp(min=0)
    losses = []
    for group, row in zip(groups, rows, strict=True):
        weight = float(group.examples[0].advantages[0])
        gained = reward(group.prompt_ids, row) - point
        losses.append(abs(weight) * (1 - torch.sigmoid(0.3 * (gained if weight > 0 else -gained))))
    return torch.stack(losses).mean(), float(point)


def test_a_step_of_kto_takes_its_gradient_from_the_batch_whole_however_it_is_cut() -> None:
    reference, points = tiny_model(), []
    for seed, budget in ((5, 16384), (5, 1), (3, 16384), (4, 12)):
        groups = unpaired([1.0, -0.5, -0.5, 2.0, -1.0], seed)
        model = moved(reference, seed)
        expected, point = kto_by_hand(model, reference, groups)
        expected.backward()
        wanted = gradients(model)
        model.zero_grad(set_to_none=True)
        config = KTO.model_copy(update={"token_budget": budget})
        stats = PolicyTrainer(model, None, config, version="start", reference=reference).teach(groups)
        found = gradients(model)
        assert stats.metrics["loss"] == pytest.approx(float(expected), rel=1e-4)
        assert stats.metrics["reference_point"] == pytest.approx(point, rel=1e-3, abs=1e-5)
        assert max(relative_error(found[name], wanted[name]) for name in wanted) < 1e-3
        points.append(point)
    assert max(points) > 0 and min(points) == 0  # clamped, and not


def test_kto_makes_desirable_answers_likelier_and_undesirable_ones_rarer() -> None:
    reference, groups = tiny_model(), unpaired([1.0, -1.0] * 3)
    model = copy.deepcopy(reference)
    trainer = PolicyTrainer(model, None, KTO, version="start")
    assert trainer.teach(groups).metrics["preferred"] == 0  # the policy is the reference
    for _ in range(8):
        stats = trainer.teach(groups)
    with torch.no_grad():
        for group in groups:
            (row,) = group.examples
            now, then = (logprobs_of(m, group.prompt_ids, row.token_ids).sum() for m in (model, reference))
            assert (now > then) == (row.advantages[0] > 0)
    assert stats.metrics["margin"] > 0.1 and stats.policy_version == "start+kto.9"


def test_an_answer_to_another_prompt_is_cut_where_the_policys_context_ends() -> None:
    model = tiny_model()
    model.config.max_position_embeddings = 16
    rng = np.random.default_rng(0)
    short, long = tokens(rng, 3), tokens(rng, 12)
    groups = [
        ExampleGroup(prompt, (Example(row, None, np.full(len(row), weight, np.float32)),), 1.0)
        for prompt, row, weight in ((short, long, 1.0), (long, short, -1.0))
    ]
    stats = PolicyTrainer(model, None, KTO, version="start", reference=moved(model)).teach(groups)
    assert np.isfinite(stats.metrics["reference_point"])


def test_the_loss_of_kto_is_that_of_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trl", reason="TRL is not installed: pip install -e '.[trl]'")
    from trl import KTOConfig, KTOTrainer

    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    tokenizer, reference = tiny_tokenizer(), tiny_model()
    rows = [
        {"prompt": "w5 w6 w7 w8", "completion": " w9 w10 w11", "label": True},
        {"prompt": "w20 w21", "completion": " w22", "label": False},
        {"prompt": "w30 w31 w32", "completion": " w23 w24 w25 w26", "label": False},
    ]
    model = moved(reference)
    loss, wanted = step_of_trl(
        KTOTrainer,
        KTOConfig(output_dir=str(tmp_path), **OF_TRL, desirable_weight=1.5, undesirable_weight=0.75),
        reference,
        model,
        rows,
    )
    groups = []
    for row in rows:
        ids = np.array([*tokenizer(row["completion"]).input_ids, tokenizer.eos_token_id], np.int32)
        weights = np.full(len(ids), 1.5 if row["label"] else -0.75, np.float32)
        prompt = np.array(tokenizer(row["prompt"]).input_ids, np.int32)
        groups.append(ExampleGroup(prompt, (Example(ids, None, weights),), 1.0))
    stats = PolicyTrainer(model, None, KTO, version="start", reference=reference).teach(groups)
    found = gradients(model)
    assert stats.metrics["loss"] == pytest.approx(float(loss), rel=1e-4)
    assert max(relative_error(found[name], wanted[name]) for name in wanted) < 1e-3
