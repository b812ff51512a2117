"""vllm:ID?replicas=N: several engines sample what one does, a lost one is begun anew, a problem stays where it was."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from vllm_stubbed import stubbed_vllm

from problems.contract import BadAddress
from problems.types import Prompt
from vpo.policies import spread
from vpo.policies.address import parse_address
from vpo.policies.registry import PolicySettings, load_policy
from vpo.vllm import leases
from vpo.vllm.address import engine_settings
from vpo.vllm.policy import VllmPolicy
from vpo.vllm.replicas import LocalReplica, _gpus_of, local_replicas

pytestmark = pytest.mark.usefixtures("one_thread")
PROMPTS = [Prompt(f"Say {'x' * i}.", stream=i) for i in range(6)]


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(spread, "PROBE_SECONDS", (0.05, 0.5))
    with stubbed_vllm():
        yield


def loaded(address: str, **settings: object) -> VllmPolicy:
    policy = load_policy(address, **({"max_tokens": 10, "threads": 1} | settings))  # type: ignore[arg-type]
    assert isinstance(policy, VllmPolicy)
    return policy


async def tokens(policy: VllmPolicy, seed: int = 3) -> list[list[list[int]]]:
    groups = await policy.sample(PROMPTS, rollouts=3, answers=1, seed=seed)
    return [[one.token_ids.tolist() for one in group] for group in groups]


def test_replicas_sample_what_one_engine_does_whichever_is_lost(qwen2: Path) -> None:
    async def scenario() -> None:
        alone = loaded(f"vllm:{qwen2}")
        several = loaded(f"vllm:{qwen2}?replicas=2")
        try:
            assert several.version == alone.version and several.slots == 2 * alone.slots
            assert several.encode(PROMPTS[1]).tolist() == alone.encode(PROMPTS[1]).tolist()
            expected = await tokens(alone)
            assert await tokens(several) == expected
            assert several.spread is not None
            members = several.spread.members
            assert all(one.answered for one in members) and sum(one.answered for one in members) == len(PROMPTS)
            first = members[0].place
            assert isinstance(first, LocalReplica)
            before = first._engine._process.pid
            waiting = asyncio.create_task(tokens(several, seed=4))
            await asyncio.sleep(0.05)
            with pytest.warns(UserWarning, match="replica 0: the vLLM engine ended by itself.*with 1 of 2 replicas"):
                os.kill(before, signal.SIGKILL)
                found = await waiting
                found_again = await tokens(several)
            assert found == await tokens(alone, seed=4) and found_again == expected
            for _ in range(600):
                if members[0].lost is None:
                    break
                await asyncio.sleep(0.1)
            assert members[0].lost is None and members[0].times_lost == 1
            assert first._engine._process.pid != before and await tokens(several) == expected
            rollouts = (await several.sample(PROMPTS[:1], rollouts=2, answers=1, seed=0))[0]
            told = await several.logprobs(rollouts)
            assert all(abs(a - b).max() < 1e-4 for a, b in zip(told, (r.logprobs for r in rollouts), strict=True))
        finally:
            await several.close()
            await alone.close()
        assert not any(one.model == str(qwen2) and one.options.replicas for one in leases._LEASED)

    asyncio.run(asyncio.wait_for(scenario(), 300))


def test_a_prompt_that_no_engine_bears_ends_the_search(llama: Path) -> None:
    async def scenario() -> None:
        policy = loaded(f"vllm:{llama}?replicas=2")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with pytest.raises(Exception, match="the step failed") as caught:
                    await policy.sample([Prompt("+", stream=1)], rollouts=1, answers=1, seed=0)
            assert type(caught.value).__name__ == "PolicyUnavailable"
        finally:
            await policy.close()

    asyncio.run(asyncio.wait_for(scenario(), 300))


def test_each_replica_has_gpus_of_its_own(monkeypatch: pytest.MonkeyPatch, qwen2: Path) -> None:
    def settings(options: str, device: str | None = None) -> object:
        return engine_settings(parse_address(f"vllm:{qwen2}?{options}"), PolicySettings(device=device))

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    two = settings("replicas=2&gpus=2")
    assert [_gpus_of(two, i) for i in (0, 1)] == [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2,3"}]
    assert _gpus_of(settings("replicas=2", "cpu"), 1) == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    assert _gpus_of(settings("replicas=2"), 1) == {"CUDA_VISIBLE_DEVICES": "6"}
    with pytest.raises(BadAddress, match="2 replicas of 2 GPUs are 4; CUDA_VISIBLE_DEVICES names 3"):
        local_replicas(two)
    with pytest.raises(BadAddress, match="replicas"):
        settings("replicas=0")
