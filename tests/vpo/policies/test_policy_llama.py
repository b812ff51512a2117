"""A small Llama without transformers around it: the model's own logits, bit by bit, or the model itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedModel, Qwen2Config

from vpo.hf.cache import LibraryBatch
from vpo.hf.llama import LlamaBatch, SmallLlama, small_llama
from vpo.hf.llama_files import load_llama
from vpo.hf.rows import SharedRows
from vpo.policies.registry import policy_at

CHECKPOINTS = Path(__file__).resolve().parents[3] / "vpo/languages/checkpoints"
EMBEDDED = CHECKPOINTS / "base"
pytestmark = pytest.mark.usefixtures("one_thread")


def embedded(name: str = "base") -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(CHECKPOINTS / name, dtype=torch.float32).eval()
    return model


def loaded(folder: Path = EMBEDDED) -> SmallLlama:
    found = load_llama(folder, None)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(("rows", "padded"), [(1, False), (5, False), (5, True)])
@pytest.mark.parametrize("name", ["base", "edit-solve"])
def test_its_logits_are_those_of_the_model(name: str, rows: int, padded: bool) -> None:
    """Of several prompts, each with a few rows of which some leave, in a model from its files and in one that lends
    its weights."""
    model = embedded(name)
    lent = small_llama(model)
    assert lent is not None
    chance = np.random.default_rng(rows)
    prompts = [chance.integers(3, 480, 40 - (7 * i if padded else 0)).astype(np.int32) for i in range(rows)]
    row = torch.arange(rows).repeat_interleave(5)
    with torch.inference_mode():
        states = [LibraryBatch(model), LlamaBatch(loaded(CHECKPOINTS / name)), LlamaBatch(lent)]
        batches = [SharedRows(state, prompts, row, 0) for state in states]
        for turn in range(70):  # beyond the room that the cache has to spare
            tokens = torch.from_numpy(chance.integers(3, 480, len(row)))
            theirs, *ours = batches
            assert all(torch.equal(one.logits, theirs.logits) for one in ours), turn
            if turn % 20 == 19:
                stay = torch.arange(len(row))[1:]
                row, tokens = row[stay], tokens[stay]
                for batch in batches:
                    batch.keep(stay)
            for batch in batches:
                batch.step(tokens)


def test_the_logits_after_every_column_are_those_of_a_plain_pass() -> None:
    ids = torch.arange(3, 90)[None]
    with torch.inference_mode():
        ours = LlamaBatch(loaded()).append(ids, torch.arange(ids.shape[1])[None], None, every=True)
        assert torch.equal(ours, embedded()(input_ids=ids).logits[0])


def test_weights_that_are_put_in_place_are_used() -> None:
    model, weights = loaded(), embedded("vpo").state_dict()
    for name, weight in model.state_dict().items():
        weight.copy_(weights[name])
    ids, positions = torch.arange(3, 23)[None], torch.arange(20)[None]
    with torch.inference_mode():
        ours, theirs = (LlamaBatch(one).append(ids, positions, None) for one in (model, loaded(CHECKPOINTS / "vpo")))
        assert torch.equal(ours, theirs)


def test_its_tokenizer_is_that_of_transformers() -> None:
    found = load_llama(EMBEDDED, None)
    assert found is not None
    ours, theirs = found[1], AutoTokenizer.from_pretrained(EMBEDDED)
    text = " ".join([*list(theirs.get_vocab())[:200], "unknown", "<eos>", ">"])
    ids = theirs(text, add_special_tokens=False).input_ids
    assert ours(text, add_special_tokens=False).input_ids == ids
    for skip in (False, True):
        assert ours.decode(np.array(ids), skip_special_tokens=skip) == theirs.decode(ids, skip_special_tokens=skip)
    assert (ours.eos_token_id, ours.unk_token_id) == (theirs.eos_token_id, theirs.unk_token_id)


def say(**settings: Any) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))

    return change


def change_weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], object]:
    return lambda folder: save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")


@pytest.mark.parametrize(
    "change",
    [
        say(evo_dialect="chat"),
        say(num_key_value_heads=2),
        say(attention_bias=True),
        say(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}),
        say(model_type="qwen2"),
        say(vocab_size=100),
        change_weights(lambda weights: {name: weight.half() for name, weight in weights.items()}),
        change_weights(lambda weights: {**weights, "model.extra": torch.zeros(1)}),
        lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"),
        lambda folder: (folder / "tokenizer_config.json").write_text('{"clean_up_tokenization_spaces": true}'),
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        lambda folder: (folder / "generation_config.json").unlink(),
    ],
)
def test_a_directory_with_anything_else_is_left_to_transformers(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = shutil.copytree(EMBEDDED, tmp_path / "policy")
    assert load_llama(folder, None) is not None
    change(folder)
    assert load_llama(folder, None) is None


SMALL = {
    **{"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SMALL, num_key_value_heads=2),
        LlamaConfig(**SMALL, num_key_value_heads=4, attention_bias=True),
        LlamaConfig(**SMALL, num_key_value_heads=4, hidden_act="gelu"),
        LlamaConfig(
            **SMALL,
            num_key_value_heads=4,
            rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
        ),
        Qwen2Config(**SMALL, num_key_value_heads=4),
    ],
    ids=["two queries a key", "biases", "another activation", "stretched rotations", "qwen2"],
)
def test_other_models_are_left_to_transformers(config: LlamaConfig) -> None:
    assert small_llama(AutoModelForCausalLM.from_config(config).eval()) is None


def test_a_model_that_something_was_added_to_is_too() -> None:
    model = AutoModelForCausalLM.from_config(LlamaConfig(**SMALL)).eval()
    assert small_llama(model) is not None, "a small Llama of anyone is served"
    hook = model.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    assert small_llama(model) is None
    hook.remove()
    assert small_llama(model) is not None
    model.model.layers[0].self_attn.q_proj = torch.nn.Sequential(model.model.layers[0].self_attn.q_proj)
    assert small_llama(model) is None
    assert small_llama(embedded().to(torch.bfloat16)) is None


def test_a_trainer_gets_the_weights_of_now_and_a_checkpoint_is_whole(tmp_path: Path) -> None:
    policy: Any = policy_at("embedded:base", device="cpu")
    assert isinstance(policy.model, SmallLlama)
    policy.model.state_dict()["lm_head.weight"].zero_()
    learner = policy.learner()
    assert not learner.lm_head.weight.any() and isinstance(policy.model, SmallLlama)
    model = policy.open_model()
    assert policy.model is model is policy.open_model() is not learner
    model.save_pretrained(tmp_path)
    policy.tokenizer.save_pretrained(tmp_path)
    assert not loaded(tmp_path).state_dict()["lm_head.weight"].any()


def test_searches_and_comparisons_that_only_sample_load_no_transformers(tmp_path: Path) -> None:
    script = """
import sys
from evo.cli import invoke
common = ["maze:test", "--limit", "2", "--iterations", "2", "--plain", "--db", "sqlite:///evo.db"]
assert invoke(["run", *common, "--policy", "embedded:vpo"]) == 0
arms = ["--arm", "embedded:grpo", "--arm", "embedded:edit-solve"]
assert invoke(["compare", *common, *arms, "--seeds", "1", "--processes", "1"]) == 0
found = {"torch", "transformers", "torch._dynamo", "sympy", "peft", "jinja2"} & set(sys.modules)
assert found == {"torch"}, found
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
