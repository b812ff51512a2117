"""Stages of bench/gpu.sh: engines that sample, and what a trainer does with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.gpu_place import GAP, Place, check, distance, flat, gpu_memory, keep, load, plain, prompts, same
from vpo.hf.static_decoding import StaticDecoder

LONG = 15.0
"""Seconds of a call from which a way of sampling is not measured with more rows."""


async def policies(place: Place) -> dict[str, Any]:
    """transformers, with CUDA graphs and with the loop: what it says of its samples is what its model says; tokens a
    second by rows, beside the library's generate; four policies at once."""
    policy, found, texts = plain(place), dict[str, Any](), dict[str, list[str]]()
    ways = {"graphs": StaticDecoder(policy.model, run_step) if place.dry else policy._static, "loop": None}
    try:
        for way, policy._static in ways.items():
            rollouts = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
            again = flat(await policy.sample(prompts(4), rollouts=4, answers=1, seed=0))
            gap = distance([one.logprobs for one in rollouts], (await policy.logprobs(rollouts))[0])
            found[f"{way}_gap_nats"] = check("sampled against recomputed", gap, GAP[place.device])
            texts[way] = [one.text for one in rollouts]
            found[f"{way}_same_again"] = same(texts[way], [one.text for one in again])
        found["same_text"] = same(*texts.values())
        policy.stops, policy.max_tokens = frozenset(), min(place.tokens, 64)  # all rows of one length
        slow: set[str] = set()
        for rows in (1, 8) if place.dry else (1, 32, 256, 2048):
            for way in ("graphs", "loop", "generate"):
                if way in slow:
                    continue
                try:
                    for seed in range(2):  # the first loads kernels and captures
                        began = time.perf_counter()
                        if way in ways:
                            policy._static = ways[way]
                            await policy.sample(prompts(1), rollouts=rows, answers=1, seed=seed)
                        else:
                            await policy.between(partial(_generate, policy, rows))
                        seconds = time.perf_counter() - began
                        found[f"{way}_tokens_per_second_{rows}_call_{seed}"] = rows * policy.max_tokens / seconds
                        keep(place, "policies", found)
                        if seconds > LONG:  # with more rows it would take the other stages' time
                            slow.add(way)
                            break
                except Exception as error:
                    if way in ways:
                        raise
                    found[f"{way}_{rows}"] = repr(error)[:80]  # of the library, which this does not measure
        policy._static = ways["graphs"]
        await _together(place, policy, found)
        return found | {"graphs_refused": ways["graphs"] is None or ways["graphs"].refused, "gpu_gib": gpu_memory()}
    finally:
        await policy.close()


async def _together(place: Place, policy: Any, found: dict[str, Any]) -> None:
    """Four policies of one process that capture and sample at once, as the arms of a comparison do."""
    policies = [policy, *(plain(place) for _ in range(3))]
    for one in policies[1:]:
        one.stops, one.max_tokens = policy.stops, policy.max_tokens
        one._static = StaticDecoder(one.model, run_step) if place.dry else one._static
    found["together_failed_captures"] = 0
    try:
        for call, rows in enumerate((2, 4) if place.dry else (40, 72, 136, 264, 264)):
            began = time.perf_counter()
            await asyncio.gather(*(one.sample(prompts(1), rollouts=rows, answers=1, seed=call) for one in policies))
            seconds = time.perf_counter() - began
            found[f"together_tokens_per_second_{rows}_call_{call}"] = 4 * rows * policy.max_tokens / seconds
            found["together_failed_captures"] += sum(one._static._refusals for one in policies)
            keep(place, "policies", found)
    finally:
        for one in policies[1:]:
            await one.close()


def run_step(step: Callable[[], None]) -> Callable[[], None]:
    """In a graph's place on a CPU."""
    step()
    return step


def _generate(policy: Any, rows: int) -> None:
    """The library's own way. Its generate_batch takes nine tenths of the card, and is slower (bench/results/gpu.md)."""
    import torch
    from transformers import GenerationConfig

    ids = policy.encode(prompts(1)[0]).tolist()
    setting = GenerationConfig(
        do_sample=True, top_k=0, max_new_tokens=policy.max_tokens, eos_token_id=-1, pad_token_id=0
    )
    policy.model.generate(torch.tensor([ids] * rows, device=policy.model.device), setting)


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
        found["same_text"] = same([one.text for one in before], [one.text for one in after])
        return found | {"gap_nats": check("after waking", gap, GAP[place.device])}
    finally:
        await policy.close()
