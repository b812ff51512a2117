"""Stages of bench/gpu.sh: engines that sample, and what a trainer does with them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.gpu_place import GAP, Place, check, distance, flat, gpu_memory, load, plain, prompts


async def policies(place: Place) -> dict[str, Any]:
    """transformers: what it says of its samples is what its model says; tokens a second alone and with 32."""
    policy = plain(place)
    try:
        rollouts = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
        again = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
        gap = distance([one.logprobs for one in rollouts], (await policy.logprobs(rollouts))[0])
        found: dict[str, Any] = {"gap_nats": check("sampled against recomputed", gap, GAP[place.device])}
        found["same_again"] = float(np.mean([a.text == b.text for a, b in zip(rollouts, again, strict=True)]))
        for rows in (1, 8 if place.dry else 32):
            began = time.perf_counter()
            some = flat(await policy.sample(prompts(1), rollouts=rows, answers=1, seed=1))
            found[f"tokens_per_second_{rows}"] = sum(one.tokens for one in some) / (time.perf_counter() - began)
        return found | {"gpu_gib": gpu_memory()}
    finally:
        await policy.close()


def make_adapter(place: Place) -> str:
    """A LoRA adapter that changes what the model says."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = place.out / "adapter"
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(place.model), LoraConfig(r=8, target_modules=["q_proj", "v_proj"])
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.02)
    model.save_pretrained(str(folder))
    return str(folder)


async def lora(place: Place) -> dict[str, Any]:
    """An adapter's directory in vLLM against its merged weights in transformers."""
    policy, other = load(place.vllm(model=make_adapter(place)), place), plain(place)
    try:
        rollouts = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
        base = distance([one.logprobs for one in rollouts], (await other.logprobs(rollouts))[0])
        await other.update(policy.learner().state_dict(), "merged")
        gap = distance([one.logprobs for one in rollouts], (await other.logprobs(rollouts))[0])
        if not base > 2 * gap:
            raise AssertionError(f"the adapter changes nothing: {base:.3g} nats without it, {gap:.3g} with it")
        return {"gap_nats": check("adapter against merged", gap, GAP[place.device]), "gap_to_the_base_nats": base}
    finally:
        await policy.close()
        await other.close()


async def sleep(place: Place) -> dict[str, Any]:
    """The GPU's memory while something else has its turn, and the samples after it."""
    policy = load(place.vllm("&sleep=on"), place)
    try:
        before = flat(await policy.sample(prompts(2), rollouts=4, answers=1, seed=0))
        awake, began = gpu_memory(), time.perf_counter()
        asleep = await policy.between(gpu_memory)
        seconds = time.perf_counter() - began
        gap = distance([one.logprobs for one in before], (await policy.logprobs(before))[0])
        after = flat(await policy.sample(prompts(2), rollouts=4, answers=1, seed=0))
        found = {"awake_gib": awake, "asleep_gib": asleep, "sleep_and_wake_seconds": seconds}
        if not place.dry and not asleep < 0.5 * awake:
            raise AssertionError(f"asleep the engine holds {asleep:.1f} of {awake:.1f} GiB")
        same = float(np.mean([a.text == b.text for a, b in zip(before, after, strict=True)]))
        return found | {"same_text": same, "gap_nats": check("after waking", gap, GAP[place.device])}
    finally:
        await policy.close()
