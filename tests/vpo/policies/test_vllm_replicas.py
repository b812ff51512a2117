"""vllm:ID?replicas=N: several engines sample what one does, a lost one is begun anew, a problem stays where it was."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vllm_stubbed import stubbed_vllm

from problems.contract import BadAddress
from problems.types import Prompt
from vpo.policies import spread
from vpo.policies.address import parse_address
from vpo.policies.contract import PolicyUnavailable
from vpo.policies.registry import PolicySettings, load_policy
from vpo.vllm import leases
from vpo.vllm.address import engine_settings
from vpo.vllm.engine import Engine
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
            assert several.version == alone.version and several.traits.slots == 2 * alone.traits.slots
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
            told = (await several.logprobs(rollouts))[0]
            assert all(abs(a - b).max() < 1e-4 for a, b in zip(told, (r.logprobs for r in rollouts), strict=True))
        finally:
            await several.close()
            await alone.close()
        assert not any(one.model == str(qwen2) and one.options.replicas for one in leases._LEASED)

    asyncio.run(asyncio.wait_for(scenario(), 300))


def engines(policy: VllmPolicy) -> list[LocalReplica]:
    assert policy.spread is not None
    return [one.place for one in policy.spread.members if isinstance(one.place, LocalReplica)]


def changed(policy: VllmPolicy, factor: float) -> dict[str, Any]:
    return {name: tensor * factor for name, tensor in policy.learner().state_dict().items()}


async def until_back(policy: VllmPolicy, number: int) -> None:
    assert policy.spread is not None
    while policy.spread.members[number].lost is not None:
        await asyncio.sleep(0.05)


def far(one: list[Any], other: list[Any]) -> float:
    return float(np.abs(np.concatenate(one) - np.concatenate(other)).max())


@pytest.mark.long
def test_every_replica_takes_new_weights_and_one_that_is_lost_comes_back_with_them(qwen2: Path) -> None:
    async def scenario() -> None:
        plain, several = load_policy(str(qwen2)), loaded(f"vllm:{qwen2}?replicas=2")
        shares = loaded(f"vllm:{qwen2}?replicas=2", temperature=0.5)
        try:
            assert shares._engine is several._engine and several.traits.weights == "model"
            rollouts = (await several.sample(PROMPTS[:1], rollouts=2, answers=1, seed=0))[0]
            before = (await several.logprobs(rollouts))[0]
            first = [one._engine._process.pid for one in engines(several)]
            for factor in (1.05, 1.1):  # the first takes engines of its own, the second keeps their processes
                weights = changed(several, factor)
                await several.update(weights, f"by {factor}")
                pids = [one._engine._process.pid for one in engines(several)]
                assert not set(pids) & set(first)
            await plain.update(weights, "by 1.1")  # type: ignore[attr-defined]
            expected = (await plain.logprobs(rollouts))[0]  # type: ignore[attr-defined]
            assert far(expected, before) > 1e-2
            each = await several.logprobs(rollouts)
            assert len(each) == 2 and all(far(one, expected) < 1e-4 for one in each)
            assert several.version == "by 1.1" and [one._engine._process.pid for one in engines(shares)] == first
            with pytest.warns(UserWarning, match="replica 1: the vLLM engine ended by itself"):
                os.kill(pids[1], signal.SIGKILL)
                found = await tokens(several)
            await until_back(several, 1)
            assert engines(several)[1]._engine._process.pid != pids[1] and await tokens(several) == found
            each = await several.logprobs(rollouts)
            assert len(each) == 2 and all(far(one, expected) < 1e-4 for one in each)
            held = Path(several._weights)
            assert held.is_dir()
        finally:
            await several.close()
            await shares.close()
            await plain.close()
        assert not held.exists()

    asyncio.run(asyncio.wait_for(scenario(), 300))


def test_a_replica_that_cannot_take_weights_is_begun_anew_with_them(
    qwen2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reload, refused = Engine.reload, []

    def refuse(engine: Engine, settings: Any) -> None:
        if engine is refused[0]:
            raise BadAddress("no room for them")
        reload(engine, settings)

    async def scenario() -> None:
        policy = loaded(f"vllm:{qwen2}?replicas=2")
        try:
            rollouts = (await policy.sample(PROMPTS[:1], rollouts=2, answers=1, seed=0))[0]
            refused.append(engines(policy)[0]._engine)
            monkeypatch.setattr(Engine, "reload", refuse)
            await policy.update(changed(policy, 1.1), "new")
            (there,) = await policy.logprobs(rollouts)
            with pytest.warns(UserWarning, match="replica 0: it cannot take other weights: no room.*with 1 of 2"):
                await tokens(policy)
            await until_back(policy, 0)
            each = await policy.logprobs(rollouts)
            assert len(each) == 2 and all(far(one, there) < 1e-4 for one in each)
            refused[0] = None
            monkeypatch.setattr(Engine, "reload", lambda engine, settings: refuse(refused[0], settings))
            with pytest.raises(PolicyUnavailable, match="replica 0: no room for them"):
                await policy.update(changed(policy, 1.2), "newer")
            assert policy.version == "new"
        finally:
            await policy.close()

    asyncio.run(asyncio.wait_for(scenario(), 300))


def test_all_replicas_sleep_while_a_trainer_works(qwen2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_STUB_GPU", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    told, ask = [], LocalReplica.ask

    def record(replica: LocalReplica, kind: str, content: Any = None) -> Any:
        told.append((kind, replica.name))
        return ask(replica, kind, content)

    async def scenario() -> None:
        policy = loaded(f"vllm:{qwen2}?replicas=2&dtype=float32")
        monkeypatch.setattr(LocalReplica, "ask", record)
        try:
            await policy.between(lambda: told.append(("work", "")))
            os.kill(engines(policy)[0]._engine._process.pid, signal.SIGKILL)
            await policy.between(lambda: told.append(("work", "")))  # by those that are there
        finally:
            await policy.close()

    asyncio.run(asyncio.wait_for(scenario(), 300))
    every = [(kind, f"replica {i}") for kind in ("sleep", "wake") for i in (0, 1)]
    assert told == 2 * [*every[:2], ("work", ""), *every[2:]]


def test_engines_that_others_ask_too_are_not_trained(qwen2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere(LocalReplica):
        """As of a cluster: no LocalReplica to those who look."""

    monkeypatch.setattr("vpo.vllm.replicas.LocalReplica", type("Own", (), {}))
    address = parse_address(f"vllm:{qwen2}?replicas=1")
    settings = engine_settings(address, PolicySettings(threads=1, max_tokens=10))
    monkeypatch.setitem(leases.ENGINE_REGISTRY, settings, [Elsewhere(settings, 0)])
    policy = loaded(str(address))
    try:
        assert policy.traits.weights == "none"
        with pytest.raises(BadAddress, match="engines on a cluster"):
            policy.learner()
    finally:
        asyncio.run(policy.close())


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
