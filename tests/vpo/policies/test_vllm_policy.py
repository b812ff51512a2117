"""A vllm: policy around its engine: what it tells, shares, replaces and survives. The engine is a stub of vLLM over a
transformers model (tests/stubs/vllm.py), so that what it samples can be checked exactly; bench/vllm_policy.py asks the
real one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from vllm_stubbed import stubbed_vllm
from warm_processes import ForkedWithModels

from problems.contract import BadAddress
from problems.types import Prompt
from vpo.languages.contract import checkpoint_path
from vpo.policies.contract import PolicyUnavailable, PromptTooLong, TrainablePolicy
from vpo.policies.registry import load_policy
from vpo.vllm import leases
from vpo.vllm.policy import Turns

pytestmark = pytest.mark.usefixtures("one_thread")
PROMPTS = [Prompt(f"Say {word}.", "Be brief." * (i % 2), stream=i) for i, word in enumerate(("one", "two", "three"))]


def loaded(address, **settings):
    return load_policy(address, **({"max_tokens": 12, "threads": 1} | settings))


def within(scenario, seconds=120):
    return asyncio.run(asyncio.wait_for(scenario, seconds))


@contextlib.asynccontextmanager
async def opened(address, **settings):
    policy = loaded(address, **settings)
    try:
        yield policy
    finally:
        await policy.close()


def close_to(one, other, tolerance=2e-5):
    return all(np.allclose(a, b, atol=tolerance) for a, b in zip(one, other, strict=True))


def test_log_probabilities_are_those_of_transformers_at_the_temperature(vllm_stub):
    async def scenario():
        async with opened(vllm_stub, temperature=0.7) as policy, opened(vllm_stub[5:], temperature=0.7) as plain:
            assert all(np.array_equal(policy.encode(prompt), plain.encode(prompt)) for prompt in PROMPTS)
            groups = await policy.sample(PROMPTS, rollouts=3, answers=1, seed=0)
            rollouts = [one for group in groups for one in group]
            told = [one.logprobs for one in rollouts]
            assert close_to(told, (await plain.logprobs(rollouts))[0])
            assert close_to(told, (await policy.logprobs(rollouts))[0])
            policy.temperature = 1.0
            assert not close_to(told, (await policy.logprobs(rollouts))[0], 1e-2)

    within(scenario())


def test_temperature_0_and_top_p(vllm_stub):
    async def scenario():
        async with opened(f"{vllm_stub}?temperature=0") as policy:
            assert policy.temperature == 0
            ((one, other),) = await policy.sample(PROMPTS[:1], rollouts=2, answers=1, seed=0)
            assert one.token_ids.tolist() == other.token_ids.tolist() and not one.logprobs.any()
        async with opened(vllm_stub, top_p=0.05) as policy:  # of so small a nucleus hardly more than one token is left
            ((narrow,),) = await policy.sample(PROMPTS[:1], rollouts=1, answers=1, seed=0)
            assert narrow.logprobs[0] > -0.7

    within(scenario())


def test_a_prompt_that_leaves_no_room_is_told_before_anything_is_sampled(vllm_stub):
    async def scenario():
        async with opened(vllm_stub) as policy:
            assert policy.context == 511
            with pytest.raises(PromptTooLong, match="511"):
                await policy.sample([PROMPTS[0], Prompt("long " * 200)], rollouts=1, answers=1, seed=0)

    within(scenario())


def test_policies_of_one_engine_share_it_and_the_last_ends_it(qwen2):
    with stubbed_vllm():
        one, other = loaded(f"vllm:{qwen2}?sequences=2"), loaded(f"vllm:{qwen2}?sequences=2", temperature=0.3)
    assert one._engine is other._engine
    process = one._engine._process

    async def scenario():
        await one.close()
        await one.close()
        await other.sample(PROMPTS, rollouts=1, answers=1, seed=0)
        assert process.gone is None
        with pytest.raises(PolicyUnavailable, match="closed"):
            await one.sample(PROMPTS, rollouts=1, answers=1, seed=0)
        await other.close()

    within(scenario())
    assert process.gone is not None
    assert not any(engine._process is process for engine in leases._LEASED.values())


def test_new_weights_are_sampled_from_and_others_keep_theirs(vllm_stub):
    async def scenario():
        with stubbed_vllm():
            async with opened(vllm_stub) as policy, opened(vllm_stub) as other, opened(vllm_stub[5:]) as plain:
                assert isinstance(policy, TrainablePolicy)
                rollouts = (await policy.sample(PROMPTS, rollouts=2, answers=1, seed=0))[0]
                before = (await policy.logprobs(rollouts))[0]
                model, ids = policy.learner(), policy._engine._process.pid
                weights = {name: tensor * 1.1 for name, tensor in model.state_dict().items()}
                with pytest.raises(ValueError, match="other: not this model's weights: lm_head.weight"):
                    await policy.update({k: v for k, v in weights.items() if k != "lm_head.weight"}, "other")
                assert close_to(before, (await policy.logprobs(rollouts))[0])
                for _ in range(2):  # the first takes an engine of its own, the second keeps it
                    await policy.update(weights, "other")
                assert policy.version == "other" and policy._engine._process.pid != ids
                await plain.update(weights, "other")
                after = (await policy.logprobs(rollouts))[0]
                assert close_to(after, (await plain.logprobs(rollouts))[0]) and not close_to(after, before, 1e-2)
                assert other._engine._process.pid == ids and close_to(before, (await other.logprobs(rollouts))[0])

    within(scenario())


def test_an_adapter_is_served_and_can_be_trained_on(qwen2, tmp_path):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(qwen2), LoraConfig(r=2, target_modules=["q_proj"]))
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora" in name:
                weight.fill_(0.3)
    adapted.save_pretrained(tmp_path)

    async def scenario():
        with stubbed_vllm():
            async with opened(f"vllm:{tmp_path}") as policy, opened(str(qwen2)) as plain:
                assert policy.version.count("+") == 1
                rollouts = (await policy.sample(PROMPTS, rollouts=2, answers=1, seed=0))[0]
                assert not close_to([one.logprobs for one in rollouts], (await plain.logprobs(rollouts))[0], 1e-2)
                await plain.update(policy.learner().state_dict(), "merged")
                assert close_to([one.logprobs for one in rollouts], (await plain.logprobs(rollouts))[0])
                await policy.update(policy.learner().state_dict(), "merged")
                assert close_to([one.logprobs for one in rollouts], (await policy.logprobs(rollouts))[0])

    within(scenario())


def test_nothing_is_sampled_while_something_has_the_engine_alone(vllm_stub):
    told = []

    async def scenario():
        async with opened(vllm_stub) as policy:

            async def sampled(name):
                await policy.sample(PROMPTS, rollouts=4, answers=1, seed=0)
                told.append(name)

            def work():
                told.append("begins")
                time.sleep(0.3)
                told.append("ends")
                return 42

            early = [asyncio.create_task(sampled("early")) for _ in range(2)]
            await asyncio.sleep(0)
            alone = asyncio.create_task(policy.between(work))
            await asyncio.sleep(0)
            late = asyncio.create_task(sampled("late"))
            assert await alone == 42
            await asyncio.gather(*early, late)

    within(scenario())
    assert told == ["early", "early", "begins", "ends", "late"]


def test_those_who_wait_alone_take_turns_and_a_fault_lets_the_next_go():
    async def scenario():
        turns, told = Turns(), []

        async def alone(name, fault=False):
            async with turns.alone():
                told.append(name)
                await asyncio.sleep(0.01)
                told.append(name)
                if fault:
                    raise KeyError(name)

        done = await asyncio.gather(alone("a", True), alone("b"), alone("c"), return_exceptions=True)
        assert isinstance(done[0], KeyError) and told == ["a", "a", "b", "b", "c", "c"]
        async with turns.shared(), turns.shared():
            waiting = asyncio.create_task(alone("d"))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with turns.shared():  # one that gave up waiting holds nobody back
            assert told[-1] == "c"

    within(scenario(), 10)


def test_a_cancelled_call_lets_go_of_its_rollouts_and_the_engine_goes_on(vllm_stub):
    async def scenario():
        async with opened(vllm_stub, max_tokens=400) as policy:
            policy.stops = frozenset()
            task = asyncio.create_task(policy.sample(PROMPTS, rollouts=40, answers=1, seed=0))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            policy.max_tokens = 2
            assert len(await policy.sample(PROMPTS, rollouts=1, answers=1, seed=0)) == 3

    within(scenario())


@pytest.mark.parametrize("fault", ["killed", "failed step"])
def test_an_engine_that_dies_is_unavailable_for_those_who_wait_and_those_who_come(llama, fault):
    async def scenario():
        with stubbed_vllm():
            policy = loaded(f"vllm:{llama}?sequences=3", max_tokens=300)
        try:
            failing = Prompt("+", stream=1)
            assert policy.encode(failing)[0] == 13  # which the stub cannot bear
            prompts = [*PROMPTS, failing] if fault == "failed step" else PROMPTS
            waiting = asyncio.create_task(policy.sample(prompts, rollouts=1000, answers=1, seed=0))
            await asyncio.sleep(0.2)
            if fault == "killed":
                os.kill(policy._engine._process.pid, signal.SIGKILL)
            with pytest.raises(PolicyUnavailable, match="memory" if fault == "killed" else "the step failed") as caught:
                await waiting
            assert "\n" not in str(caught.value)
            await asyncio.to_thread(policy._engine._process.wait)
            with pytest.raises(PolicyUnavailable, match="ended by itself"):
                await policy.sample(PROMPTS, rollouts=1, answers=1, seed=0)
        finally:
            await policy.close()

    within(scenario())


def test_models_that_cannot_be_had_are_one_line_and_leave_no_process(llama, tmp_path):
    hungry = shutil.copytree(llama, tmp_path / "hungry")
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text("{}")
    with stubbed_vllm():
        with pytest.raises(PolicyUnavailable, match="hungry.*memory"):
            loaded(f"vllm:{hungry}")
        with pytest.raises(BadAddress, match="cannot be loaded") as caught:
            loaded(f"vllm:{bare}")
        assert "\n" not in str(caught.value)
        with pytest.raises(BadAddress, match="device cuda cannot be used"):
            loaded(f"vllm:{hungry}", device="cuda")
        with pytest.raises(BadAddress, match="writes by a grammar.*leave out vllm:"):
            loaded(f"vllm:{checkpoint_path('formula')}")
    assert not [s for s in leases._LEASED if Path(s.model).name in ("hungry", "bare")]


def test_the_engine_ends_with_the_process_that_asked_for_it(qwen2):
    script = (
        "import os, sys\nfrom vllm_stubbed import stubbed_vllm\nfrom vpo.policies.registry import load_policy\n"
        "with stubbed_vllm(forked=False):\n    policy = load_policy(sys.argv[1], threads=1)\n"
        "print(policy._engine._process.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    tests = Path(__file__).parents[2]
    path = os.pathsep.join(map(str, (tests, tests.parent)))
    process = ForkedWithModels(
        [sys.executable, "-c", script, f"vllm:{qwen2}"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    out, _ = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    engine = Path("/proc") / out.split()[-1]
    deadline = time.monotonic() + 10
    while engine.exists() and "Z" not in (engine / "stat").read_text().split()[2] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not engine.exists() or "Z" in (engine / "stat").read_text().split()[2]
