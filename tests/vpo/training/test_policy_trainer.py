"""PolicyTrainer on tiny models: what a step does to the weights, against hand-made loops; its precision and batches."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from support.training_samples import (
    gradients,
    logprobs_of,
    random_groups,
    relative_error,
    scored_group,
    tiny_model,
    tokens,
)
from torch.utils._python_dispatch import TorchDispatchMode

from problems.types import ScoredGroup
from vpo.policies.registry import policy_at
from vpo.training import trainer as trainer_module
from vpo.training.config import TrainConfig
from vpo.training.examples import Estimation, Example, ExampleGroup, group_advantages
from vpo.training.model import uses_bf16_autocast
from vpo.training.trainer import PolicyTrainer, TrainingDiverged, micro_batches

PLAIN = TrainConfig(kl=0.0, lr=1e-3, precision="fp32")


@pytest.fixture(autouse=True)
def unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer_module, "GRAD_CLIP", 1e9)


def config_of(**changes: Any) -> TrainConfig:
    return TrainConfig.model_validate({**PLAIN.model_dump(), **changes})


def trainer_of(model: Any, config: TrainConfig = PLAIN, **settings: Any) -> PolicyTrainer:
    return PolicyTrainer(model, None, config, **{"version": "start", **settings})


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_equal_weights(model: Any, expected: dict[str, torch.Tensor]) -> None:
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, expected[name]), name


def test_a_step_makes_rewarded_rollouts_likelier_and_the_others_less_so() -> None:
    model = tiny_model()
    rng = np.random.default_rng(0)
    prompt, completions = tokens(rng, 7), [tokens(rng, n) for n in (5, 3, 6, 4)]
    group = scored_group(prompt, completions, [[[1.0]], [[0.0]], [[1.0]], [[0.0]]], model=model)
    before = [logprobs_of(model, prompt, ids).mean().item() for ids in completions]
    trainer = trainer_of(model)
    stats = trainer.step([group])
    after = [logprobs_of(model, prompt, ids).mean().item() for ids in completions]
    assert after[0] > before[0] and after[2] > before[2]
    assert after[1] < before[1] and after[3] < before[3]
    assert stats.policy_version == trainer.version == "start+vpo.1"
    assert stats.metrics["ratio"] == pytest.approx(1.0, abs=1e-4)
    assert stats.metrics["fitness"] == 0.5
    assert stats.metrics["behaviour_nll"] == pytest.approx(
        -sum(b * len(ids) for b, ids in zip(before, completions, strict=True)) / 18, rel=1e-4
    )
    assert stats.metrics["tokens"] == 18 and stats.metrics["length"] == 4.5 and stats.metrics["cut"] == 0
    # the loss and its gradient are those of the definition: mean over tokens of -advantage
    assert stats.metrics["loss"] == pytest.approx(-(5 - 3 + 6 - 4) / 18, abs=1e-4)


def test_the_gradient_is_the_definitions_however_the_batch_is_cut() -> None:
    model = tiny_model("Qwen2")
    groups = random_groups(model, 4)
    estimation = Estimation()
    terms, total = [], 0
    for group in groups:
        for rollout, advantage in zip(group.rollouts, group_advantages(group, estimation), strict=True):
            ids = rollout.rollout.token_ids
            ratio = (logprobs_of(model, rollout.rollout.prompt_ids, ids) - torch.tensor(rollout.rollout.logprobs)).exp()
            terms.append(-advantage * ratio.sum())
            total += len(ids)
    model.zero_grad()
    (torch.stack(terms).sum() / total).backward()
    expected = gradients(model)
    for budget in (1, 40, 100_000):
        copied = copy.deepcopy(model)
        trainer = trainer_of(copied, config_of(token_budget=budget))
        trainer.step(groups)
        assert trainer.shares
        for name, gradient in gradients(copied).items():
            assert relative_error(gradient, expected[name]) < 1e-4, (budget, name)


def test_groups_that_teach_nothing_leave_everything_as_it_was() -> None:
    model = tiny_model()
    rng = np.random.default_rng(0)
    flat = scored_group(tokens(rng, 4), [tokens(rng, 3)] * 2, [[[0.5]], [[0.5]]], model=model)
    trainer, before = trainer_of(model), weights_of(model)
    for groups in ([flat, flat], []):
        stats = trainer.step(groups)
        assert stats.policy_version == ""
        assert stats.metrics["groups"] == stats.metrics["spreadless"] == len(groups)
        assert (trainer.version, trainer.steps) == ("start", 0)
    assert_equal_weights(model, before)
    # beside a group that teaches, it changes nothing either
    teaching = random_groups(model, 1)
    twin = copy.deepcopy(model)
    stats = trainer.step([flat, *teaching])
    assert stats.metrics["spreadless"] == 1 and stats.policy_version == "start+vpo.1"
    trainer_of(twin).step(teaching)
    assert_equal_weights(twin, weights_of(model))


def test_samples_of_a_nucleus_are_refused() -> None:
    model = tiny_model()
    groups = [dataclasses.replace(group, top_p=0.9) for group in random_groups(model, 2)]
    trainer, before = trainer_of(model), weights_of(model)
    with pytest.raises(ValueError, match=r"sampled at top-p 0.9; training needs samples of the whole distribution"):
        trainer.step(groups)
    assert_equal_weights(model, before)


def test_stale_groups_are_left_out_and_counted() -> None:
    model = tiny_model()
    trainer = trainer_of(model, config_of(max_staleness=1))
    groups = random_groups(model, 2)

    def of(version: str) -> list[ScoredGroup]:
        return [dataclasses.replace(group, policy_version=version) for group in groups]

    assert trainer.step(of("start")).metrics["stale"] == 0
    assert trainer.step(of("start")).metrics["stale"] == 0  # one version behind
    stats = trainer.step(of("start"))
    assert (stats.metrics["stale"], stats.policy_version) == (2, "")
    stats = trainer.step([*of("start"), *of("start+vpo.1"), *of("start+vpo.2"), *of("another")])
    assert (stats.metrics["stale"], stats.policy_version) == (4, "start+vpo.3")
    assert stats.metrics["groups"] == 8


@pytest.mark.parametrize("aim", ["behaviour", "weights"])
def test_a_loss_that_is_not_finite_stops_before_the_weights_are_touched(tmp_path, aim: str) -> None:
    model = tiny_model()
    groups = random_groups(model, 2)
    trainer = trainer_of(model, folder=tmp_path / "run")
    trainer.step(groups)
    bad = random_groups(model, 2, seed=1)
    kept = weights_of(model)
    if aim == "behaviour":
        bad[1].rollouts[0].rollout.logprobs[0] = np.nan
    else:
        with torch.no_grad():
            model.model.layers[1].mlp.up_proj.weight[0, 0] = torch.inf
        kept = weights_of(model)
    moments = copy.deepcopy(trainer.optimizer.state_dict()["state"])
    with pytest.raises(TrainingDiverged, match=r"step 2.*diverged-step-2\.pt.*smaller learning rate"):
        trainer.step(bad)
    assert_equal_weights(model, kept)
    for i, state in trainer.optimizer.state_dict()["state"].items():
        assert all(torch.equal(value, moments[i][name]) for name, value in state.items())
    assert (trainer.version, trainer.steps) == ("start+vpo.1", 1)
    saved = torch.load(tmp_path / "run" / "diverged-step-2.pt", weights_only=False)
    assert saved["step"] == 2 and saved["config"] == trainer.config
    assert len(saved["groups"]) == 2
    np.testing.assert_array_equal(saved["groups"][0].prompt_ids, bad[0].rollouts[0].rollout.prompt_ids)
    if aim == "behaviour":  # the fault was the batch's: training can go on
        assert trainer.step(groups).policy_version == "start+vpo.2"


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.long), 4])
def test_a_state_goes_on_exactly(rank: int) -> None:
    start = tiny_model()
    settings = {"kl": 0.01, "truncate": 2.0, "schedule": "cosine", "warm_up": 1, "steps": 4, "weight_decay": 0.1}
    config = config_of(lora_rank=rank, seed=3, **settings)
    batches = [random_groups(start, 3, seed=i) for i in range(4)]

    def trainer_from(model: Any) -> PolicyTrainer:
        return trainer_of(copy.deepcopy(model), config, reference=None if rank else copy.deepcopy(start))

    whole, first = trainer_from(start), trainer_from(start)
    metrics = [dict(whole.step(groups).metrics) for groups in batches]
    for groups in batches[:2]:
        first.step(groups)
    state = copy.deepcopy(first.state())
    weights = start if rank else copy.deepcopy(first.model)  # an adapter's are in the state
    first.step(batches[0])  # what happens afterwards is not in it
    torch.manual_seed(12345)
    second = trainer_from(weights)
    second.restore(state)
    assert (second.version, second.steps) == ("start+vpo.2", 2)
    assert [dict(second.step(groups).metrics) for groups in batches[2:]] == metrics[2:]
    assert_equal_weights(second.model, weights_of(whole.model))
    assert any(not torch.equal(p, q) for p, q in zip(whole.model.parameters(), first.model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"warm_up": 2}, [0.5, 1.0, 1.0, 1.0]),
        ({"schedule": "linear", "steps": 4}, [0.75, 0.5, 0.25, 0.0]),
        ({"schedule": "linear", "warm_up": 2, "steps": 4}, [0.5, 1.0, 0.5, 0.0]),
        ({"schedule": "cosine", "steps": 4}, [(1 + np.cos(np.pi * i / 4)) / 2 for i in (1, 2, 3, 4)]),
    ],
)
def test_the_schedule_counts_steps(settings, expected) -> None:
    model = tiny_model(num_hidden_layers=1)
    trainer = trainer_of(model, config_of(**settings))
    groups = random_groups(model, 4)
    rates = [trainer.step(groups).metrics["learning_rate"] for _ in range(4)]
    np.testing.assert_allclose(rates, np.array(expected) * 1e-3, atol=1e-12)


def test_the_gradient_norm_is_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    groups = random_groups(model, 2)
    free, bound = copy.deepcopy(model), copy.deepcopy(model)
    norm = trainer_of(free).step(groups).metrics["grad_norm"]
    monkeypatch.setattr(trainer_module, "GRAD_CLIP", norm / 10)
    stats = trainer_of(bound).step(groups)
    assert stats.metrics["grad_norm"] == pytest.approx(norm, rel=1e-5)
    for name, gradient in gradients(bound).items():
        torch.testing.assert_close(gradient, gradients(free)[name] / 10, rtol=1e-3, atol=1e-9)


def test_the_kl_to_the_reference_is_zero_at_the_start_and_pulls_back_later() -> None:
    model = tiny_model()
    groups = random_groups(model, 3)
    trainer = trainer_of(model, config_of(kl=0.1))
    metrics = [trainer.step(groups).metrics for _ in range(4)]
    assert metrics[0]["kl"] == 0.0
    assert 0 < metrics[1]["kl"] < metrics[3]["kl"]

    def distance(kl: float) -> float:
        other = copy.deepcopy(tiny_model())
        held = trainer_of(other, config_of(kl=kl))
        return [held.step(groups).metrics["behaviour_kl"] for _ in range(6)][-1]

    assert distance(30.0) < distance(0.0)


def test_half_precision_weights_are_trained_in_full_and_bf16_stays_close() -> None:
    model = tiny_model()
    groups = random_groups(model, 3)
    exact, rounded = copy.deepcopy(model), copy.deepcopy(model)
    half = trainer_of(copy.deepcopy(model).bfloat16())
    assert {p.dtype for p in half.model.parameters()} == {torch.float32}
    trainer_of(exact).step(groups)
    trainer_of(rounded, config_of(precision="bf16")).step(groups)
    assert {p.dtype for p in rounded.parameters()} == {torch.float32}
    found = torch.cat([g.flatten() for g in gradients(rounded).values()])
    expected = torch.cat([g.flatten() for g in gradients(exact).values()])
    assert 1e-4 < relative_error(found, expected) < 0.1


def test_settings_that_make_no_sense_are_refused() -> None:
    for name, value in (("method", "ppo"), ("schedule", "steep"), ("schedule", "linear"), ("lr", 0.0), ("clip", 0.3)):
        with pytest.raises(ValueError):
            config_of(**{name: value})


def test_a_micro_batch_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = random_groups(tiny_model())
    expected = trainer_of(tiny_model())
    expected.step(groups)
    trainer = trainer_of(tiny_model(), config_of(token_budget=1024))
    whole = trainer._loss

    def lose(groups: Any, weight: float) -> Any:
        if trainer._budget > 600:
            raise torch.OutOfMemoryError
        return whole(groups, weight)

    monkeypatch.setattr(trainer, "_loss", lose)
    with pytest.warns(match="out of memory: micro-batches of 512 tokens from here on"):
        trainer.step(groups)
    for name, weight in expected.model.named_parameters():
        torch.testing.assert_close(trainer.model.get_parameter(name), weight, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(trainer_module, "LEAST_BUDGET", 4096)
    trainer._budget = 1024
    with pytest.raises(torch.OutOfMemoryError):
        trainer.step(groups)


# -- precision


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
    trainer = trainer_of(model, config_of(token_budget=40, precision="bf16", kl=1e-3))
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


# -- how a batch is cut into micro-batches


def group_of(prompt: int, *lengths: int) -> ExampleGroup:
    rows = (Example(np.full(n, n, np.int32), np.zeros(n, np.float32), np.ones(n, np.float32)) for n in lengths)
    return ExampleGroup(np.zeros(prompt, np.int32), tuple(rows), 1.0)


GROUPS = [group_of(40, 10, 20, 5), group_of(10, 10, 12), group_of(12, 1, 2, 3, 4, 5, 6, 7), group_of(300, 64)]


@pytest.mark.parametrize("budget", [1, 30, 60, 150, 10_000])
def test_every_rollout_stands_once_with_its_prompt(budget: int) -> None:
    batches = micro_batches(GROUPS, budget)

    def rows_of(groups: list[ExampleGroup]) -> list[tuple[int, int]]:
        return sorted((id(example), len(group.prompt_ids)) for group in groups for example in group.examples)

    assert rows_of([group for batch in batches for group in batch]) == rows_of(GROUPS)
    for batch in batches:
        rows = [example for group in batch for example in group.examples]
        prompts = len(batch) * max(len(group.prompt_ids) for group in batch)
        padded = prompts + len(rows) * max(len(example.token_ids) for example in rows)
        assert padded <= budget or len(rows) == 1


def test_a_large_budget_makes_one_batch_and_a_tiny_one_a_batch_a_rollout() -> None:
    assert len(micro_batches(GROUPS, 10_000)) == 1
    assert len(micro_batches(GROUPS, 1)) == 13
    assert micro_batches([], 100) == []
