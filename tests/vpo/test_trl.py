"""VPOTrainer on a tiny model: its advantages are the table's, its loss and gradients are PolicyTrainer's."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.training_samples import gradients, relative_error, scored_group, tiny_model, tiny_tokenizer

pytest.importorskip("trl", reason="TRL is not installed: pip install -e '.[trl]'")

from datasets import Dataset  # noqa: E402
from trl import GRPOConfig  # noqa: E402

from problems.contract import Score, ScorerFault  # noqa: E402
from problems.types import ScoredGroup  # noqa: E402
from vpo.training.config import TrainConfig  # noqa: E402
from vpo.training.examples import Estimation, group_advantages  # noqa: E402
from vpo.training.trainer import PolicyTrainer  # noqa: E402
from vpo.trl import VPOTrainer  # noqa: E402

PROMPTS = ["w5 w6 w7 w8", "w20 w21", "w30 w31 w32 w33 w34 w35 w36"]
ROWS: list[dict[str, Any]] = [{"prompt": prompt, "bonus": 0.1 * i} for i, prompt in enumerate(PROMPTS)]
SIZE = 4


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    model = tiny_model("Qwen2")
    model.generation_config.eos_token_id = [0, *range(70, 96)]  # so that some end early
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def chain(row: dict[str, Any], text: str) -> list[str]:
    """Answers end at words whose number is divisible by four."""
    answers: list[list[str]] = [[]]
    for word in text.split():
        if int(word[1:]) % 4 == 0:
            answers.append([])
        else:
            answers[-1].append(word)
    return [" ".join(answer) for answer in answers if answer]


def score(row: dict[str, Any], answer: str) -> list[float]:
    """How many words are even, how many small; worth more on rows with a bonus."""
    numbers = [int(word[1:]) for word in answer.split()]
    return [sum(n % 2 == 0 for n in numbers) / 8 + row["bonus"], sum(n < 40 for n in numbers) / 8]


def trainer_of(checkpoint: Path, folder: Path, **settings: Any) -> VPOTrainer:
    options = {
        "output_dir": str(folder),
        "per_device_train_batch_size": SIZE * len(PROMPTS),
        "num_generations": SIZE,
        "max_completion_length": 9,
        "max_steps": 2,
        "learning_rate": 1e-3,
        "gradient_checkpointing": False,
        "bf16": False,
        "use_cpu": True,
        "report_to": "none",
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": 3,
        **settings.pop("args", {}),
    }
    return VPOTrainer(
        str(checkpoint),
        **{"score": score, "parse": chain, **settings},
        args=GRPOConfig(**options),
        train_dataset=Dataset.from_list(ROWS),
        processing_class=tiny_tokenizer(),
    )


def generated(trainer: VPOTrainer) -> dict[str, Any]:
    """One batch as TRL's training loop gets it, less its shuffling."""
    model: Any = trainer.model
    model.train()
    trainer.current_gradient_accumulation_steps = 1
    return trainer._generate_and_score_completions([row for row in ROWS for _ in range(SIZE)])


def as_groups(trainer: VPOTrainer, batch: dict[str, Any], behaviour: torch.Tensor | None = None) -> list[ScoredGroup]:
    """The batch as a search would have recorded it."""
    groups = []
    for g, row in enumerate(ROWS):
        places = range(g * SIZE, (g + 1) * SIZE)
        prompt = batch["prompt_ids"][places[0]][batch["prompt_mask"][places[0]].bool()].numpy().astype(np.int32)
        lengths = [int(batch["completion_mask"][i].sum()) for i in places]
        ids = [batch["completion_ids"][i, :n].numpy().astype(np.int32) for i, n in zip(places, lengths, strict=True)]
        texts = []
        for one in ids:
            kept = one[:-1] if one[-1] in trainer.eos_token_ids else one
            words = " ".join(f"w{token}" for token in kept if token > 1)
            texts.append(list(dict.fromkeys(chain(row, words)))[: trainer.answers])
        rewards = [[score(row, answer) for answer in answers] for answers in texts]
        recorded = None
        if behaviour is not None:
            recorded = [behaviour[i, :n].numpy() for i, n in zip(places, lengths, strict=True)]
        group = scored_group(
            prompt, ids, rewards, texts=texts, behaviour=recorded, answers=trainer.answers, sequence=g, problem=0
        )
        groups.append(group)
    return groups


@pytest.mark.parametrize("method", ["vpo", "max_at_k"])
def test_its_advantages_are_those_of_the_table(checkpoint: Path, tmp_path: Path, method: str) -> None:
    answers = 1 if method == "max_at_k" else 3
    trainer = trainer_of(checkpoint, tmp_path, method=method, answers=answers)
    batch = generated(trainer)
    expected = []
    for group in as_groups(trainer, batch):
        estimation = Estimation(method=method, seed=3)
        credit = group_advantages(group, estimation)
        expected += [np.array(value) for value in credit]
    assert sum(bool(value.any()) for value in expected) > 6, "most completions should teach"
    found = batch["advantages"]
    assert found.shape == (len(PROMPTS) * SIZE,)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(list(trainer._logs["advantages"]), expected, atol=1e-6)


def test_a_completion_without_answers_is_not_worth_more_than_answers_of_a_loss(
    checkpoint: Path, tmp_path: Path
) -> None:
    losses = {"a": [-1.0, -1.0], "b": [-3.0, -3.0]}
    texts = {"w5": [], "w6": ["b"], "w7": ["a"], "w8": ["a", "b"]}
    trainer = trainer_of(
        checkpoint, tmp_path, parse=lambda row, text: texts.get(text, []), score=lambda row, text: losses[text]
    )
    best = trainer._calculate_rewards(ROWS[:1] * SIZE, [""] * SIZE, [""] * SIZE, [[5], [6], [7], [8]])
    assert best.tolist() == [[-3.0], [-3.0], [-1.0], [-1.0]]
    np.testing.assert_allclose([row[0] for row in trainer._credit], [-1, -1, 1, 1], rtol=1e-5)
    best = trainer._calculate_rewards(ROWS[:1] * SIZE, [""] * SIZE, [""] * SIZE, [[]] * SIZE)
    assert best.tolist() == [[0.0]] * SIZE and all(len(row) == 0 for row in trainer._credit), "without a token"


def test_official_gdpo_is_whitened_over_the_batch(checkpoint: Path, tmp_path: Path) -> None:
    trainer = trainer_of(checkpoint, tmp_path, method="gdpo", answers=1)
    batch = generated(trainer)
    tokens = np.concatenate(trainer._credit)
    assert (tokens.mean(), tokens.std(ddof=1)) == pytest.approx((0, 1), abs=1e-4)
    np.testing.assert_allclose(batch["advantages"].numpy(), [row[0] for row in trainer._credit], atol=1e-6)


@pytest.mark.parametrize(
    ("loss_type", "beta", "stale"),
    [("dapo", 0.2, ""), ("bnpo", 0.0, "ratio"), ("bnpo", 0.2, "truncated"), ("dapo", 0.2, "ratio")],
)
def test_its_loss_and_gradients_are_policy_trainers(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss_type: str, beta: float, stale: str
) -> None:
    monkeypatch.setattr("vpo.training.trainer.GRAD_CLIP", 1e9)
    settings = {"beta": beta, "loss_type": loss_type, "epsilon": 0.2, "epsilon_high": 0.2}
    trainer = trainer_of(checkpoint, tmp_path, args={**settings, "use_bias_correction_kl": False})
    model: Any = trainer.model
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():  # away from the reference
        for parameter in model.parameters():
            parameter += 0.03 * torch.randn(parameter.shape, generator=noise)
    batch = generated(trainer)
    shape = batch["completion_ids"].shape
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        recorded = trainer._get_per_token_logps_and_entropies(model, ids, mask, shape[1])[0]
    if stale:  # sampled by another policy: ratios between 0.5 and 2, some beyond either clip
        now, recorded = recorded, recorded + torch.empty(shape).uniform_(-0.7, 0.7, generator=noise)
        batch["old_per_token_logps"] = now if stale == "truncated" else recorded
        if stale == "truncated":  # as under use_vllm, token_truncate, clip_max 1.2
            trainer.use_vllm = True
            batch["importance_sampling_ratio"] = (now - recorded).exp().clamp(max=1.2)
    groups = as_groups(trainer, batch, recorded)
    assert len({len(r.rollout.token_ids) for group in groups for r in group.rollouts}) > 4, "ragged completions"
    twin = tiny_model("Qwen2")
    twin.load_state_dict(model.state_dict())
    reference = tiny_model("Qwen2")

    model.zero_grad()
    loss = trainer._compute_loss(model, batch)
    loss.backward()

    config = TrainConfig(
        seed=3,
        kl=beta,
        truncate=1.2 if stale == "truncated" else None,
        precision="fp32",
    )
    ours = PolicyTrainer(twin, tiny_tokenizer(), config, reference=reference)
    metrics = ours.step(groups).metrics
    assert metrics["spreadless"] == 0
    assert metrics["loss"] == pytest.approx(loss.item(), rel=1e-4, abs=1e-5)
    assert (metrics["clipped"] > 0.02) == (stale == "ratio")
    assert (abs(metrics["behaviour_kl"]) > 1e-3) == bool(stale)
    if beta:
        assert metrics["kl"] > 0.01
    for name, gradient in gradients(twin).items():
        assert relative_error(gradient, dict(model.named_parameters())[name].grad) < 1e-4, name


def test_a_group_split_over_processes_is_judged_as_one(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the second of two processes, which gathers the rollouts of both; the middle one of three groups is split."""
    from trl import GRPOTrainer

    trainer = trainer_of(checkpoint, tmp_path)
    trained: Any = trainer.model
    trained.train()
    rows, half = [row for row in ROWS for _ in range(SIZE)], SIZE * len(ROWS) // 2
    ids = [[5 + n, 8, 20 + 3 * n] for n in range(len(rows))]

    def rewards(some: list[Any], of: list[list[int]]) -> None:
        trainer._calculate_rewards(some, [""] * len(some), [""] * len(some), of)

    rewards(rows, ids)
    alone = list(trainer._credit)
    first = [trainer._score_rollout(row, one) for row, one in zip(rows[:half], ids[:half], strict=True)]
    monkeypatch.setattr("vpo.trl.gather_object", lambda own: [*first, *own])

    def generate(self: Any, inputs: list[Any]) -> dict[str, Any]:
        rewards(inputs, ids[half:])
        return {"completion_ids": torch.zeros(len(inputs), 3), "advantages": torch.zeros(len(inputs))}

    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", generate)
    monkeypatch.setattr(type(trainer.accelerator), "process_index", 1)
    found = trainer._generate_and_score_completions(rows[half:])["advantages"]
    np.testing.assert_allclose(found.numpy(), [row[0] for row in alone[half:]], atol=1e-6)
    assert np.abs(found.numpy()).max() > 0.5


def test_it_trains(checkpoint: Path, tmp_path: Path) -> None:
    trainer = trainer_of(checkpoint, tmp_path, answers=2)
    model: Any = trainer.model
    before = copy.deepcopy(model.state_dict())
    trainer.train()
    assert any(not torch.equal(p, before[name]) for name, p in model.state_dict().items())
    logged = [entry for entry in trainer.state.log_history if "rewards/best_of_rollout/mean" in entry]
    assert len(logged) == 2
    assert all(0 < entry["rewards/best_of_rollout/mean"] < 2 for entry in logged)


def test_chains_are_read_as_everywhere_and_scores_taken_as_they_are(checkpoint: Path, tmp_path: Path) -> None:
    seen = []

    def judge(row: dict[str, Any], answer: str) -> Score:
        seen.append(answer)
        return Score((1.0, 0.0, 0.5), 0.7)

    trainer = trainer_of(checkpoint, tmp_path, score=judge, parse=None, answers=1)
    generated(trainer)
    # vpo.chain takes a whole text for a single answer, unless the token limit cut it
    assert 0 < len(seen) < len(PROMPTS) * SIZE
    assert all(set(answer.split()) <= {f"w{i}" for i in range(2, 96)} for answer in seen)


def test_faults_of_the_scorer_and_of_the_settings_are_said(checkpoint: Path, tmp_path: Path) -> None:
    trainer = trainer_of(checkpoint, tmp_path, scalar=[1, 1])
    for wrong, fault, message in (
        (lambda row, answer: [1.0, float("nan")], ScorerFault, "finite"),
        (lambda row, answer: 1.0, ScorerFault, "vector"),
        (lambda row, answer: [1.0], ScorerFault, "scalar weighs 2"),
        (lambda row, answer: Score((1.0,) * (1 + len(answer) % 2), 1.0), ScorerFault, "1 and 2 rewards"),
        (lambda row, answer: 1 / 0, ZeroDivisionError, "division"),
    ):
        trainer.score = wrong
        with pytest.raises(fault, match=message):
            generated(trainer)
    for settings, message in (
        ({"method": "ppo"}, "no method"),
        ({"method": "grpo", "answers": 3}, "single answers"),
        ({"reward_funcs": []}, "score"),
    ):
        with pytest.raises(ValueError, match=message):
            trainer_of(checkpoint, tmp_path, **settings)
