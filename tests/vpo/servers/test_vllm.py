"""vLLM over HTTP (tests/support/vllm_server.py): what is sampled, new weights and adapters, proved and let go of, and
the child process that is started for it."""

from __future__ import annotations

import asyncio
import copy
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.runs.start import start_run
from islands.store import Store
from islands.training import training_steps
from problems.contract import BadAddress
from problems.types import Prompt
from vpo.policies.address import PolicySettings
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, TrainablePolicy
from vpo.policies.registry import policy_at
from vpo.servers.address import VllmOptions
from vpo.servers.vllm import VllmPolicy, serve_arguments
from vpo.training.config import LoraSettings
from vpo.training.model import merge_adapter, save_adapter, with_adapter

pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[lora]'")
from support.vllm_server import VllmServer, vllm_server  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
PROMPTS = [Prompt(f"Say {word}.", stream=i) for i, word in enumerate(("one", "two", "three"))]


@pytest.fixture
def server(qwen2: Path) -> Iterator[VllmServer]:
    with vllm_server(qwen2) as one:
        yield one


def address(folder: Path, adapters: Path, server: VllmServer) -> str:
    return f"vllm:{folder}@{server.url}?served=tiny&adapters={adapters}&retries=0"


@asynccontextmanager
async def opened(name: str, **settings: Any) -> AsyncIterator[VllmPolicy]:
    policy = policy_at(name, **{"max_tokens": 8, **settings})
    assert isinstance(policy, VllmPolicy) and isinstance(policy, TrainablePolicy)
    try:
        yield policy
    finally:
        await policy.close()


def adapted(policy: VllmPolicy, size: float, rank: int = 4) -> Any:
    """A learner with an adapter that is not nothing."""
    model = with_adapter(policy.learner(), LoraSettings(lora_rank=rank), seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(size)
    return model


async def sampled(policy: Any, rollouts: int = 2) -> list[Any]:
    return [one for group in await policy.sample(PROMPTS, rollouts=rollouts, answers=1, seed=0) for one in group]


def far(one: list[Any], other: list[Any]) -> float:
    return float(np.abs(np.concatenate(one) - np.concatenate(other)).max())


async def update(policy: VllmPolicy, model: Any, version: str, folder: Path) -> None:
    """Give the policy the model's adapter."""
    save_adapter(model, folder / version)
    await policy.update(folder / version, version)


def within(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario, 600))


def test_tokens_and_log_probabilities_are_those_of_transformers(server: VllmServer, qwen2: Path) -> None:
    async def scenario() -> None:
        plain: Any = policy_at(str(qwen2), temperature=0.7)
        async with opened(f"vllm:{qwen2}@{server.url}?served=tiny", temperature=0.7) as policy:
            assert policy.traits.logprobs and policy.traits.weights == "none"
            assert all(np.array_equal(policy.encode(one), plain.encode(one)) for one in PROMPTS)
            rollouts = await sampled(policy)
            assert far([one.logprobs for one in rollouts], await plain.logprobs(rollouts)) < 1e-4
            request = server.requests[-1]
            assert request["n"] == 2 and request["logprobs"] == 1 and request["top_k"] == -1 and request["ignore_eos"]
            assert len({tuple(one.token_ids) for one in rollouts[:2]}) == 2, "one seed for each row"
            for one in rollouts:
                stopped = one.token_ids[-1] in request["stop_token_ids"]
                assert one.finish == ("stop" if stopped else "length") and one.prompt_ids.dtype == np.int32
        await plain.close()

    within(scenario())


def test_temperature_0_and_a_prompt_that_leaves_no_room(server: VllmServer, qwen2: Path) -> None:
    async def scenario() -> None:
        async with opened(f"vllm:{qwen2}@{server.url}?served=tiny&temperature=0") as policy:
            one, other, *_ = await sampled(policy)
            assert one.token_ids.tolist() == other.token_ids.tolist() and not one.logprobs.any()
            assert policy.context == 511
            with pytest.raises(PromptTooLong, match="511"):
                await policy.sample([Prompt("long " * 200)], rollouts=1, answers=1, seed=0)

    within(scenario())


def test_new_adapters_are_sampled_from_and_old_ones_let_go_of(server: VllmServer, qwen2: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(address(qwen2, tmp_path / "seen", server)) as policy:
            assert policy.version == f"vllm:tiny@{server.url}/v1" and policy.traits.weights == "adapter"
            rollouts = await sampled(policy)
            before, names = [one.logprobs for one in rollouts], []
            for size in (0.05, 0.1):
                model = adapted(policy, size)
                await update(policy, model, f"by {size}", tmp_path)
                assert policy.version == f"by {size}"
                assert list(server.adapters) == [one.name for one in (tmp_path / "seen").iterdir()]
                names += server.adapters
            assert len(set(names)) == 2
            plain: Any = policy_at(str(qwen2))
            await plain.update(merge_adapter(copy.deepcopy(model)).state_dict(), "merged")
            expected = await plain.logprobs(rollouts)
            await plain.close()
            after = await policy.logprobs(rollouts)
            assert far(after, expected) < 1e-4 < 1e-2 < far(before, expected)
            now = await sampled(policy)
            assert server.requests[-1]["model"] == names[-1]
            assert far([one.logprobs for one in now], await policy.logprobs(now)) < 1e-4
            with pytest.raises(ValueError, match="takes only LoRA adapters"):
                await policy.update({}, "whole")
        assert not server.adapters and not list((tmp_path / "seen").iterdir())

    within(scenario())


@pytest.mark.parametrize(
    ("manners", "said"),
    [
        ({"updates": False}, "takes no LoRA adapters: start vLLM with --enable-lora"),
        ({"most_rank": 2}, "rank 4 is greater"),
    ],
)
def test_a_server_that_takes_no_adapter_goes_on_as_it_was(
    qwen2: Path, tmp_path: Path, manners: dict[str, Any], said: str
) -> None:
    async def scenario() -> None:
        with vllm_server(qwen2, **manners) as server:
            async with opened(address(qwen2, tmp_path / "seen", server)) as policy:
                before = await sampled(policy)
                with pytest.raises(PolicyUnavailable, match=said):
                    await update(policy, adapted(policy, 0.1), "new", tmp_path)
                again = await sampled(policy)
                assert [one.text for one in again] == [one.text for one in before] and policy.version != "new"
                assert not list((tmp_path / "seen").iterdir())

    within(scenario())


@pytest.mark.long
def test_a_child_serves_takes_adapters_and_ends_with_its_policy(qwen2: Path, any_vllm: None, tmp_path: Path) -> None:
    async def scenario() -> None:
        plain: Any = policy_at(str(qwen2))
        async with opened(f"vllm:{qwen2}?context=256&dtype=float32&lora_rank=4", temperature=1.0) as policy:
            assert policy.context == 255 and policy.traits.weights == "adapter" and policy.traits.slots == 256
            assert policy.version.startswith(f"vllm:{qwen2}@") and not policy.version.endswith("@")
            rollouts, child = await sampled(policy), policy._child
            before = [one.logprobs for one in rollouts]
            assert far(before, await plain.logprobs(rollouts)) < 1e-4
            model = adapted(policy, 0.1)
            await update(policy, model, "new", tmp_path)
            assert far(before, after := await policy.logprobs(rollouts)) > 1e-2
            assert await policy.between(lambda: 7) == 7
        assert child.gone() and not child.folder.exists()
        with pytest.raises(PolicyUnavailable, match="closed"):
            await sampled(policy)
        await plain.close()
        model.peft_config["default"].base_model_name_or_path = str(qwen2)
        save_adapter(model, tmp_path / "adapter")
        async with opened(f"vllm:{tmp_path / 'adapter'}?dtype=float32") as policy:  # merged
            assert policy.traits.weights == "none" and far(after, await policy.logprobs(rollouts)) < 1e-4

    within(scenario())


@pytest.mark.long
def test_a_child_that_ends_by_itself_is_one_line(qwen2: Path, vllm_program: None, tmp_path: Path) -> None:
    hungry = tmp_path / "hungry"
    hungry.symlink_to(qwen2)
    with pytest.raises(PolicyUnavailable, match=r"ended by itself \(exit code 1\): MemoryError: CUDA out of memory"):
        policy_at(f"vllm:{hungry}/")

    async def scenario() -> None:
        async with opened(f"vllm:{qwen2}?retries=0") as policy:
            policy.encode = policy._text.encode = lambda prompt: np.array([13], np.int32)  # type: ignore[method-assign]
            with pytest.raises(PolicyUnavailable, match=r"ended by itself \(exit code 3\).*evo resume starts it again"):
                await sampled(policy)

    within(scenario())


@pytest.mark.long
def test_a_child_ends_when_its_owner_is_killed(qwen2: Path, vllm_program: None) -> None:
    code = (
        "import sys, time\nfrom vpo.policies.registry import policy_at\n"
        f"policy = policy_at('vllm:{qwen2}')\nprint(policy._child.url, flush=True)\ntime.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    port = int(owner.stdout.readline().strip().removesuffix("/v1").rpartition(":")[2])
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    for _ in range(200):
        listening = subprocess.run(
            [sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"],
            stderr=subprocess.DEVNULL,
        )
        if listening.returncode:
            return
        time.sleep(0.1)
    raise AssertionError("the server outlives its owner")


SCORER = """statement, seed_answer, answer_format, isolated = "Write.", "w", "text", False


def score(answer):
    return {"short": 1 / (1 + len(answer))}  # an untrained model writes no words
"""


def config(policy: str, folder: Path, **changes: Any) -> RunConfig:
    scorer = folder / "scorer.py"
    scorer.write_text(SCORER)
    train = {"method": "grpo", "every": 2, "lr": 1e-2, "precision": "fp32", "lora_rank": 4, "kl": 0.0}
    settings = {
        "problems": [str(scorer)],
        "iterations": 8,
        "parallel": 2,
        "rollouts": 4,
        "answers": 1,
        "max_new_tokens": 8,
    }
    return RunConfig.model_validate(
        {**settings, "policy": policy, "train": {**train, **changes.pop("train", {})}, **changes}
    )


async def search(asked: RunConfig, folder: Path) -> str:
    launched = await start_run(asked, db=f"sqlite:///{folder / 'evo.db'}", name="run", command="test")
    try:
        await launched.search.run()
        return launched.operators[0].policy.version
    finally:
        await launched.close()


@pytest.mark.long
def test_a_search_trains_the_model_that_a_server_serves(server: VllmServer, qwen2: Path, tmp_path: Path) -> None:
    asked = config(address(qwen2, tmp_path / "adapters", server), tmp_path)
    version = asyncio.run(asyncio.wait_for(search(asked, tmp_path), 120))
    with Store.open(f"sqlite:///{tmp_path / 'evo.db'}", read_only=True) as store:
        steps = list(training_steps(store, store.run("run").id))
    made = [step.policy_version for step in steps if step.policy_version]
    assert made and version == made[-1]
    assert all(0 <= step.stats["probe"] < 1e-4 for step in steps if step.policy_version)
    assert {one["model"][:4] for one in server.requests if "seed" in one} == {"tiny", "evo-"}
    assert not list((tmp_path / "adapters").iterdir())


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"train": {"lora_rank": 0}}, "", "takes only LoRA adapters: set lora_rank"),
        ({"temperature": 0.7}, "", "only at temperature 1"),
        ({}, "&logprobs=off", "gives no token ids and log-probabilities"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_stored(
    server: VllmServer, qwen2: Path, tmp_path: Path, changes: dict[str, Any], options: str, said: str
) -> None:
    asked = config(address(qwen2, tmp_path / "adapters", server) + options, tmp_path, **changes)
    with pytest.raises(BadInput, match=said):
        asyncio.run(search(asked, tmp_path))


def test_the_command_line_of_the_server() -> None:
    options = VllmOptions(lora_rank=12, serve={"enforce-eager": True, "max-num-seqs": 7})
    model, *arguments = serve_arguments("some/model", "model", options, PolicySettings(dtype="float32"))
    assert model == "some/model" and "--enforce-eager" in arguments
    flags = dict(zip(arguments, arguments[1:], strict=False))
    assert "--enable-lora" in arguments and flags["--max-lora-rank"] == "16" and flags["--max-loras"] == "2"
    assert flags["--max-num-seqs"] == "7" and flags["--logprobs-mode"] == "processed_logprobs"
    assert flags["--dtype"] == "float32" and flags["--generation-config"] == "vllm"


def adapter(folder: Path, **content: Any) -> str:
    said = {"base_model_name_or_path": "some/base", "peft_type": "LORA", "r": 12, **content}
    (folder / "adapter_config.json").write_text(json.dumps(said))
    return str(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"peft_type": "IA3"}, "only LoRA"),
        ({"base_model_name_or_path": "/nowhere"}, "no such directory.*names"),
        ({"base_model_name_or_path": "{folder}"}, "of its own"),
    ],
)
@pytest.mark.parametrize("kind", ["", "vllm:"])
def test_an_adapter_that_cannot_be_loaded_is_one_line(
    tmp_path: Path, content: dict[str, str], message: str, kind: str
) -> None:
    filled = {key: value.format(folder=tmp_path) for key, value in content.items()}
    with pytest.raises(BadAddress, match=message) as caught:
        policy_at(f"{kind}{adapter(tmp_path, **filled)}")
    assert "\n" not in str(caught.value)
