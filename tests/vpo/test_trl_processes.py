"""Two processes that hold half a group each give its completions the advantages that one process would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.training_processes import run_in_two_processes
from support.training_samples import scored_group, tiny_model, tiny_tokenizer

pytest.importorskip("trl", reason="TRL is not installed: pip install -e '.[trl]'")

from vpo.training.examples import Estimation, group_advantages  # noqa: E402

pytestmark = pytest.mark.long

SIZE = 4
PROMPTS = ["w5 w6 w7 w8", "w20 w21", "w30 w31 w32"]


def judge(row: dict[str, Any], answer: str) -> list[float]:
    numbers = [int(word[1:]) for word in answer.split()]
    return [sum(n % 2 == 0 for n in numbers) / 8, sum(n < 40 for n in numbers) / 8]


def worker(rank: int, folder: Path) -> dict[str, Any]:
    from datasets import Dataset
    from trl import GRPOConfig

    from vpo.trl import VPOTrainer

    rows = [{"prompt": prompt} for prompt in PROMPTS]
    trainer = VPOTrainer(
        str(folder),
        score=judge,
        parse=lambda row, text: [text],
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=6,
            num_generations=SIZE,
            max_completion_length=9,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to="none",
            seed=3,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tiny_tokenizer(),
    )
    model: Any = trainer.model
    model.train()
    trainer.current_gradient_accumulation_steps = 1
    everything = [row for row in rows for _ in range(SIZE)]
    batch = trainer._generate_and_score_completions(everything[6 * rank : 6 * rank + 6])  # type: ignore[arg-type]
    texts = trainer._tokenizer.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    logged = list(trainer._logs["advantages"])
    return {"texts": texts, "advantages": batch["advantages"], "logged": logged}


def test_a_group_split_over_processes_is_judged_as_one(tmp_path: Path) -> None:
    tiny_model("Qwen2").save_pretrained(tmp_path)
    first, second = run_in_two_processes(worker, tmp_path)
    texts = first["texts"] + second["texts"]
    assert len(set(texts)) > 8
    expected: list[float] = []
    for place in range(len(PROMPTS)):
        some = texts[SIZE * place : SIZE * (place + 1)]
        rewards = [[judge({}, text)] for text in some]
        group = scored_group(
            np.zeros(2, np.int32), [np.ones(3, np.int32)] * SIZE, rewards, sequence=place, problem=0, answers=3
        )
        expected += group_advantages(group, Estimation(method="vpo", seed=3)).tolist()
    assert np.abs(expected[:8]).max() > 0.5
    np.testing.assert_allclose(first["advantages"].tolist() + second["advantages"].tolist(), expected, atol=1e-6)
    for found in (first, second):
        np.testing.assert_allclose(found["logged"], expected, atol=1e-6)
