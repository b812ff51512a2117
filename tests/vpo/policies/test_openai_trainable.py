"""A served model that a trainer beside the search gives LoRA adapters: loaded, proved, and let go of."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.runs.start import launch
from evo.search.loop import SyncFailed
from islands.db.store import Store
from islands.queries.training import training_steps
from problems.contract import BadAddress
from problems.types import Prompt
from vpo.openai.trainable import AdaptedPolicy
from vpo.policies import spread
from vpo.policies.contract import PolicyUnavailable, TrainablePolicy
from vpo.policies.registry import load_policy
from vpo.training.adapters import merge_adapter, save_adapter, with_adapter
from vpo.training.config import LoraSettings

pytest.importorskip("peft", reason="peft is not installed: pip install -e '.[lora]'")
from lora_server import LoraServer, lora_server  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
PROMPTS = [Prompt(f"Say {word}.", stream=i) for i, word in enumerate(("one", "two", "three"))]


@pytest.fixture
def server(qwen2: Path) -> Iterator[LoraServer]:
    with lora_server(qwen2) as one:
        yield one


def address(folder: Path, adapters: Path, *servers: LoraServer) -> str:
    urls = ",".join(one.url for one in servers)
    return f"openai:tiny@{urls}?weights={folder}&adapters={adapters}&retries=0"


@asynccontextmanager
async def opened(name: str, **settings: Any) -> AsyncIterator[AdaptedPolicy]:
    policy = load_policy(name, max_tokens=8, **settings)
    assert isinstance(policy, AdaptedPolicy) and isinstance(policy, TrainablePolicy)
    try:
        yield policy
    finally:
        await policy.close()


def adapted(policy: AdaptedPolicy, size: float, rank: int = 4) -> Any:
    """A learner with an adapter that is not nothing."""
    model = with_adapter(policy.learner(), LoraSettings(lora_rank=rank), seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(size)
    return model


async def sampled(policy: AdaptedPolicy) -> list[Any]:
    return [one for group in await policy.sample(PROMPTS, rollouts=2, answers=1, seed=0) for one in group]


async def update(policy: AdaptedPolicy, model: Any, version: str) -> None:
    """Give the policy the model's adapter."""
    with TemporaryDirectory() as folder:
        save_adapter(model, Path(folder) / "adapter")
        await policy.update(Path(folder) / "adapter", version)


def far(one: list[Any], other: list[Any]) -> float:
    return float(np.abs(np.concatenate(one) - np.concatenate(other)).max())


def test_new_adapters_are_sampled_from_and_old_ones_let_go_of(server: LoraServer, qwen2: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(address(qwen2, tmp_path, server)) as policy:
            assert policy.context == 2048 and policy.version == f"openai:tiny@{server.url}/v1"
            rollouts = await sampled(policy)
            assert np.array_equal(rollouts[0].prompt_ids, policy.encode(PROMPTS[0]))
            before = [one.logprobs for one in rollouts]
            assert far(before, (await policy.logprobs(rollouts))[0]) < 1e-4
            names = []
            for size in (0.05, 0.1):
                model = adapted(policy, size)
                await update(policy, model, f"by {size}")
                assert policy.version == f"by {size}" and list(server.adapters) == [
                    one.name for one in tmp_path.iterdir()
                ]
                names += server.adapters
            assert len(set(names)) == 2
            async with opened_plain(qwen2, model) as plain:
                expected = (await plain.logprobs(rollouts))[0]
            assert far((await policy.logprobs(rollouts))[0], expected) < 1e-4 < 1e-2 < far(before, expected)
            now = await sampled(policy)
            assert server.requests[-1]["model"] == names[-1]
            assert far([one.logprobs for one in now], (await policy.logprobs(now))[0]) < 1e-4
            with pytest.raises(ValueError, match="takes only LoRA adapters"):
                await policy.update({}, "whole")
        assert not server.adapters and not list(tmp_path.iterdir())

    asyncio.run(asyncio.wait_for(scenario(), 120))


@asynccontextmanager
async def opened_plain(folder: Path, model: Any) -> AsyncIterator[Any]:
    plain: Any = load_policy(str(folder))
    try:
        await plain.update(merge_adapter(copy.deepcopy(model)).state_dict(), "merged")
        yield plain
    finally:
        await plain.close()


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
        with lora_server(qwen2, **manners) as server:
            async with opened(address(qwen2, tmp_path, server)) as policy:
                before = await sampled(policy)
                with pytest.raises(PolicyUnavailable, match=said):
                    await update(policy, adapted(policy, 0.1), "new")
                again = await sampled(policy)
                assert [one.text for one in again] == [one.text for one in before] and policy.version != "new"
                assert not list(tmp_path.iterdir())

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_server_that_comes_back_loads_the_adapter_before_it_is_asked(
    qwen2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "PROBE_SECONDS", (0.05, 0.1))

    async def scenario() -> None:
        with lora_server(qwen2) as one, lora_server(qwen2) as other:
            async with opened(address(qwen2, tmp_path, one, other)) as policy:
                members = policy.server.members  # type: ignore[union-attr]
                for number, member in enumerate(members):
                    member.name = f"server {number}"  # prompts go by names, and ports are others every time
                await update(policy, adapted(policy, 0.1), "new")
                rollouts = await sampled(policy)
                each = await policy.logprobs(rollouts)
                assert len(each) == 2 and far(*each) < 1e-5
                assert one.adapters.keys() == other.adapters.keys()
                for server, member in zip((one, other), members, strict=True):
                    server.adapters.clear()  # as of one that was started again
                    with pytest.warns(UserWarning, match="does not serve tiny .*going on with 1 of 2 servers"):
                        found = await sampled(policy)
                    assert member.times_lost == 1
                    assert [one.text for one in found] == [one.text for one in rollouts]
                    while member.lost is not None:
                        await asyncio.sleep(0.02)
                    assert server.adapters

    asyncio.run(asyncio.wait_for(scenario(), 120))


SCORER = """statement, seed_answer, answer_format, isolated = "Write.", "w", "text", False


def score(answer):
    return {"vowels": sum(letter in "aeiouAEIOU" for letter in answer) / max(1, len(answer))}
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
    launched = await launch(asked, db=f"sqlite:///{folder / 'evo.db'}", name="run", command="test")
    try:
        await launched.search.run()
        return launched.policy.version
    finally:
        await launched.close()


@pytest.mark.long
def test_a_search_trains_the_model_that_a_server_serves(server: LoraServer, qwen2: Path, tmp_path: Path) -> None:
    asked = config(address(qwen2, tmp_path / "adapters", server), tmp_path)
    version = asyncio.run(asyncio.wait_for(search(asked, tmp_path), 120))
    with Store.open(f"sqlite:///{tmp_path / 'evo.db'}", read_only=True) as store:
        steps = list(training_steps(store, store.run("run").id))
    made = [step.policy_version for step in steps if step.policy_version]
    assert made and version == made[-1]
    assert all(0 <= step.stats["probe"] < 1e-4 for step in steps if step.policy_version)
    assert {one["model"][:4] for one in server.requests if "messages" in one} == {"tiny", "evo-"}
    assert not list((tmp_path / "adapters").iterdir())


@pytest.mark.long
def test_a_server_that_says_ok_and_does_nothing_ends_the_search(qwen2: Path, tmp_path: Path) -> None:
    with lora_server(qwen2, deaf=True) as server:
        asked = config(address(qwen2, tmp_path / "adapters", server), tmp_path, train={"tolerance": 1e-4})
        with pytest.raises(Exception, match="differs from the trainer") as caught:
            asyncio.run(asyncio.wait_for(search(asked, tmp_path), 120))
    assert isinstance(caught.value.__cause__, SyncFailed)


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"train": {"lora_rank": 0}}, "", "takes only LoRA adapters: set lora_rank"),
        ({"temperature": 0.7}, "", "only at temperature 1"),
        ({}, "&logprobs=off", "gives no token ids and log-probabilities"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_is_stored(
    server: LoraServer, qwen2: Path, tmp_path: Path, changes: dict[str, Any], options: str, said: str
) -> None:
    asked = config(address(qwen2, tmp_path / "adapters", server) + options, tmp_path, **changes)
    with pytest.raises(BadInput, match=said):
        asyncio.run(search(asked, tmp_path))
    with pytest.raises(BadAddress, match="weights and adapters go together"):
        load_policy(f"{server.address}?weights={qwen2}")
