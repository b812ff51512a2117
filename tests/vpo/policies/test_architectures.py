"""Every causal architecture of transformers as a policy: sampled, trained, saved and loaded, with random weights.

The table of docs/guides/engines.md is what this suite finds. After a change write it again:

    python tests/vpo/policies/test_architectures.py
"""

from __future__ import annotations

import asyncio
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[2])]

from support.architectures import ARCHITECTURES, tiny_architecture
from support.training_samples import gradients, scored_group, tiny_tokenizer

from problems.contract import BadAddress
from problems.types import Prompt, Rollout
from vpo.hf.decoding import try_decoding
from vpo.hf.policy import TransformersPolicy
from vpo.policies.registry import policy_at
from vpo.training.config import TrainConfig
from vpo.training.examples import Example, ExampleGroup
from vpo.training.forward import can_share, completion_logprobs, pack_groups
from vpo.training.trainer import PolicyTrainer

pytestmark = pytest.mark.usefixtures("one_thread")

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "engines.md"
SHORT = ("qwen3_5_text", "gemma4_text", "deepseek_v3")
PROMPTS = [
    Prompt(" ".join(f"w{20 + 3 * i + j}" for j in range(length)), stream=i) for i, length in enumerate((21, 4, 12))
]
SHARED = "a shared prompt"
TRAINED = {True: SHARED, False: "each prompt by itself"}
REFUSED = "refused"
UNMADE = "not tried"
CHOICES = {"deepseek_v32", "deepseek_v4", "glm_moe_dsa", "hy_v4", "axk2", "qwen4_exp_text", "qwen4_exp"}
"""Their tiny models choose 8 of 30 tokens to attend to, by scores of which many are equal: rounding decides, and one
pass does not always agree with another. Two distributions in five may differ."""


@dataclass(frozen=True)
class Row:
    """sampled: SHARED, REFUSED or UNMADE; trained: one of TRAINED, "no" where its own backward pass fails"""

    sampled: str
    trained: str


def policy_of(model: Any) -> TransformersPolicy:
    policy = TransformersPolicy(model, tiny_tokenizer(), version="tiny", max_tokens=9, threads=1)
    policy.stops = frozenset(range(12))  # some rows end early
    return policy


def sample(policy: TransformersPolicy, prompts: list[Prompt], rollouts: int = 3) -> list[list[Rollout]]:
    return asyncio.run(policy.sample(prompts, rollouts=rollouts, answers=1, seed=5))


def plain(model: Any, rollout: Rollout) -> torch.Tensor:
    """(T,) the rollout's log-probabilities by one pass over its row, alone."""
    ids = torch.tensor(np.concatenate([rollout.prompt_ids, rollout.token_ids]), dtype=torch.long)[None]
    try:
        logits = model(input_ids=ids, use_cache=False).logits
    except TypeError:
        logits = model(input_ids=ids).logits
    chosen = torch.tensor(rollout.token_ids, dtype=torch.long)[:, None]
    return logits[0, len(rollout.prompt_ids) - 1 : -1].log_softmax(-1).gather(-1, chosen)[:, 0]


def check(kind: str, folder: Path) -> Row:
    """The row of an architecture. Raises AssertionError where it is sampled or trained wrongly."""
    try:
        model = tiny_architecture(kind)
        with torch.no_grad():
            model(input_ids=torch.arange(20, 31)[None])
    except Exception:
        return Row(UNMADE, "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            policy = policy_of(model)
        except BadAddress:
            return Row(REFUSED, "")
    groups = check_sampling(kind, policy)
    trained = check_training(kind, policy, groups)
    check_checkpoint(policy, groups, folder)
    return Row(SHARED, trained)


def check_sampling(kind: str, policy: TransformersPolicy) -> list[list[Rollout]]:
    groups = sample(policy, PROMPTS)
    rollouts = [rollout for group in groups for rollout in group]
    if kind in SHORT:
        assert len({len(rollout.token_ids) for rollout in rollouts}) > 1, "rows should end at different steps"
    with torch.no_grad():
        expected = torch.cat([plain(policy.model, rollout) for rollout in rollouts])
    found = torch.from_numpy(np.concatenate([rollout.logprobs for rollout in rollouts]))
    assert_close(kind, found, expected)
    if kind not in CHOICES:  # a row's tokens do not depend on its batch
        for prompt, group in zip(PROMPTS, groups, strict=True):
            (alone,) = sample(policy, [prompt], rollouts=1)[0]
            assert alone.token_ids.tolist() == group[0].token_ids.tolist()
    return groups


def assert_close(kind: str, found: torch.Tensor, expected: torch.Tensor) -> None:
    differences = (found - expected).abs()
    if kind in CHOICES:
        assert float((differences > 1e-4).float().mean()) < 0.4
    else:
        assert float(differences.max()) < 1e-4


def check_training(kind: str, policy: TransformersPolicy, groups: list[list[Rollout]]) -> str:
    """The gradient of a weighted sum of log-probabilities is that of rows alone, and a step moves the weights."""
    learner = policy.learner()
    examples = [
        ExampleGroup(group[0].prompt_ids, tuple(Example(r.token_ids, r.logprobs, r.logprobs) for r in group), 1.0)
        for group in groups
    ]
    rollouts = [rollout for group in groups for rollout in group]
    packed = pack_groups(examples)
    weights = torch.randn(int(packed.mask.sum()), generator=torch.Generator().manual_seed(1))
    try:
        expected = torch.cat([plain(learner, rollout) for rollout in rollouts])
        (expected * weights).sum().backward()
    except (RuntimeError, AssertionError):
        return "no"
    wanted = gradients(learner)
    learner.zero_grad()
    found = completion_logprobs(learner, packed)[packed.mask]
    (found * weights).sum().backward()
    assert_close(kind, found.detach(), expected.detach())
    if kind not in CHOICES:
        ours, theirs = (torch.cat([part.flatten() for part in some.values()]) for some in (gradients(learner), wanted))
        assert float((ours - theirs).norm() / theirs.norm()) < 1e-3
    learner = policy.learner()
    before = {name: tensor.clone() for name, tensor in learner.state_dict().items()}
    trainer = PolicyTrainer(learner, policy.tokenizer, TrainConfig(method="grpo", lr=1e-3, precision="fp32"))
    shape = [scored_group(group[0].prompt_ids, [r.token_ids for r in group], [[[float(i)]] for i in range(3)],
                          behaviour=[r.logprobs for r in group], sequence=number)
             for number, group in enumerate(groups)]  # fmt: skip
    stats = trainer.step(shape)
    assert stats.policy_version and all(np.isfinite(value) for value in stats.metrics.values())
    assert kind in CHOICES or stats.metrics["log_ratio"] < 1e-4
    assert any(not torch.equal(tensor, before[name]) for name, tensor in learner.state_dict().items())
    return TRAINED[can_share(learner)]


def check_checkpoint(policy: TransformersPolicy, groups: list[list[Rollout]], folder: Path) -> None:
    policy.model.save_pretrained(folder)
    loaded = type(policy.model).from_pretrained(folder, dtype=torch.float32)
    again = sample(policy_of(loaded), PROMPTS[1:2])
    assert [r.token_ids.tolist() for r in again[0]] == [r.token_ids.tolist() for r in groups[1]]


def read_table() -> dict[str, Row]:
    """The guide's table, by architecture."""
    found = {}
    section = GUIDE.read_text(encoding="utf-8").partition("### Which architectures")[2].partition("\n#")[0]
    for sampled, trained, names in re.findall(r"^\| ([^|]+) \| ([^|]*) \| (`[^|]+) \|$", section, re.M):
        found |= {name: Row(sampled.strip(), trained.strip()) for name in re.findall(r"`(\w[\w-]*)`", names)}
    return found


def write_table(rows: dict[str, Row]) -> str:
    by_row: dict[Row, list[str]] = {}
    for kind, row in rows.items():
        by_row.setdefault(row, []).append(kind)
    order = [SHARED, REFUSED, UNMADE]
    lines = ["| sampled with | trained with | model types |", "|---|---|---|"]
    for row in sorted(by_row, key=lambda row: (order.index(row.sampled), row.trained)):
        names = ", ".join(f"`{kind}`" for kind in by_row[row])
        lines.append(f"| {row.sampled} | {row.trained} | {names} |")
    return "\n".join(lines)


@pytest.mark.parametrize("kind", SHORT)
def test_an_architecture_is_a_policy(kind: str, tmp_path: Path) -> None:
    assert check(kind, tmp_path) == read_table()[kind]


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in ARCHITECTURES if kind not in SHORT])
def test_every_other_architecture_is_what_the_guide_says(kind: str, tmp_path: Path) -> None:
    assert check(kind, tmp_path) == read_table()[kind]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("recurrent_gemma", "log-probabilities are off"),
        ("openai-gpt", "cannot be copied from a prompt to several rollouts"),
    ],
)
def test_a_state_that_no_row_can_share_is_refused(kind: str, reason: str) -> None:
    with pytest.raises(BadAddress, match=reason):
        policy_of(tiny_architecture(kind))


def test_the_state_of_a_model_is_measured() -> None:
    """Two layers with two heads of 16 numbers, keys and values, 4 bytes each; Mamba 2: for two layers a state of 8
    heads x 16 x 16 and 4 columns of 160 numbers before a convolution, for any number of tokens."""
    llama, mamba = (try_decoding(tiny_architecture(kind)) for kind in ("llama", "mamba2"))
    assert (llama.bytes_a_token, llama.bytes_a_row) == (2 * 2 * 2 * 16 * 4, 0)
    assert (mamba.bytes_a_token, mamba.bytes_a_row) == (0, 2 * (8 * 16 * 16 + 4 * 160) * 4)


@pytest.mark.parametrize(
    ("model", "config", "sizes"),
    [
        ("BertLMHeadModel", "BertConfig", {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}),
        ("T5ForConditionalGeneration", "T5Config", {"d_model": 32, "d_ff": 32, "num_layers": 1, "num_heads": 2}),
    ],
)
def test_what_is_no_causal_model_is_refused_in_one_line(tmp_path: Path, model: str, config: str, sizes: Any) -> None:
    made = getattr(transformers, model)(getattr(transformers, config)(vocab_size=96, **sizes))
    made.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(BadAddress, match=f"no causal model.*vllm:{tmp_path}") as refused:
        policy_at(str(tmp_path), threads=1)
    assert "\n" not in str(refused.value)


def test_the_guide_names_every_architecture() -> None:
    version = re.search(r"transformers (\d+\.\d+)", GUIDE.read_text(encoding="utf-8"))
    assert version
    if transformers.__version__.startswith(version[1]):
        assert set(read_table()) == set(ARCHITECTURES)


if __name__ == "__main__":
    import tempfile

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    rows = {}
    for one in sys.argv[1:] or ARCHITECTURES:
        with tempfile.TemporaryDirectory() as place:
            try:
                rows[one] = check(one, Path(place))
            except Exception as error:
                print(f"{one}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
            else:
                print(one, rows[one], file=sys.stderr)
    print(write_table(rows))
