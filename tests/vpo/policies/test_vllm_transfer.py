"""A trainer's weights in a running engine: over a stub that keeps the order vLLM's worker insists on.

CUDA's handles are replaced by the arrays themselves; what they do on a GPU is for bench/gpu.sh to show.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager

import numpy as np
import pytest
import torch
from vllm_stubbed import stubbed_vllm

from problems.types import Prompt
from vpo.policies.registry import load_policy
from vpo.vllm import policy as vllm_policy
from vpo.vllm.transfer import receive_weights

PROMPTS = [Prompt("w5 w6 w7"), Prompt("w9")]


@pytest.fixture
def on_a_gpu(monkeypatch):
    """The stub passes for a GPU's vLLM, and weights travel as arrays."""

    def export(weights, dtype):
        arrays = [{"gpu": tensor.detach().to(getattr(torch, dtype)).numpy()} for tensor in weights.values()]
        return {"names": list(weights), "ipc_handles": arrays}, []

    monkeypatch.setenv("VLLM_STUB_GPU", "1")
    monkeypatch.setattr(vllm_policy, "export_weights", export)
    with stubbed_vllm():
        yield


@asynccontextmanager
async def opened(address):
    policy = load_policy(address, max_tokens=12)
    try:
        yield policy
    finally:
        await policy.close()


def changed(folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return {name: tensor * 1.1 for name, tensor in model.state_dict().items()}


def gap(one, other):
    return float(np.mean(np.abs(np.concatenate(one) - np.concatenate(other))))


async def update_and_look(folder, address):
    """(policy's process before and after, log-probabilities before and after, those of transformers with the new)."""
    async with opened(address) as policy, opened(str(folder)) as plain:
        rollouts = [one for group in await policy.sample(PROMPTS, rollouts=2, answers=1, seed=0) for one in group]
        before, process = await policy.logprobs(rollouts), policy._engine._process.pid
        await policy.update(changed(folder), "new")
        await policy.update(changed(folder), "newer")  # the handshake is made once
        assert policy.version == "newer"
        await plain.update(changed(folder), "new")
        after, expected = await policy.logprobs(rollouts), await plain.logprobs(rollouts)
        return (process, policy._engine._process.pid), before, after, expected, policy.transfers


def test_weights_go_into_the_running_engine(on_a_gpu, qwen2):
    address = f"vllm:{qwen2}?dtype=float32"
    (old, new), before, after, expected, transfers = asyncio.run(update_and_look(qwen2, address))
    assert old == new and transfers
    assert gap(after, expected) < 1e-4 < 1e-2 < gap(after, before)


@pytest.mark.parametrize("option", ["&transfer=off", "&gpus=2"])
def test_it_is_built_anew_where_that_is_asked_for_or_several_gpus_hold_it(on_a_gpu, qwen2, option):
    address = f"vllm:{qwen2}?dtype=float32{option}"
    (old, new), before, after, expected, transfers = asyncio.run(update_and_look(qwen2, address))
    assert old != new and not transfers
    assert gap(after, expected) < 1e-4 < 1e-2 < gap(after, before)


def test_an_engine_that_refuses_is_built_anew(on_a_gpu, qwen2, tmp_path):
    folder = shutil.copytree(qwen2, tmp_path / "refusing")
    with pytest.warns(UserWarning, match="not put into the running engine any more: IPC handle not found"):
        found = asyncio.run(update_and_look(folder, f"vllm:{folder}?dtype=float32"))
    (old, new), before, after, expected, transfers = found
    assert old != new and not transfers and gap(after, expected) < 1e-4 < gap(after, before)


def test_an_engine_that_says_ok_and_does_nothing_shows_in_the_probe(on_a_gpu, qwen2, tmp_path):
    """What the co-located trainer's probe is for: the policy that samples is not the one that was trained."""
    folder = shutil.copytree(qwen2, tmp_path / "deaf")
    _, before, after, expected, transfers = asyncio.run(update_and_look(folder, f"vllm:{folder}?dtype=float32"))
    assert transfers and gap(after, before) < 1e-6 and gap(after, expected) > 1e-2


def test_other_models_weights_are_refused_before_anything_moves(on_a_gpu, qwen2):
    async def scenario():
        async with opened(f"vllm:{qwen2}?dtype=float32") as policy:
            with pytest.raises(ValueError, match="other: not this model's weights"):
                await policy.update({"nothing": torch.zeros(1)}, "other")
            assert policy.transfers

    asyncio.run(scenario())


def test_the_calls_come_in_vllms_order():
    calls = []

    class Engine:
        def collective_rpc(self, method, kwargs=None):
            calls.append(method)

        def reset_prefix_cache(self):
            calls.append("reset")

    receive_weights(Engine(), {}, begun=False)
    receive_weights(Engine(), {}, begun=True)
    update = ["start_weight_update", "update_weights", "finish_weight_update", "reset"]
    assert calls == ["init_weight_transfer_engine", *update, *update]
