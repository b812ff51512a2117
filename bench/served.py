"""A served policy: `vllm:MODEL`, started here, against transformers over the same weights.

    python -m bench.served MODEL_DIR [--parts logprobs,speed,adapters] [--json FILE] [--dry]

  logprobs   token ids and log-probabilities of sampled rollouts against plain passes of transformers
  speed      tokens/s of equal requests at 1, 8 and 32 requests at once
  adapters   seconds of an update with a LoRA adapter, and how far log-probabilities then are from transformers

--dry takes the server of the tests, which needs no vLLM: the figures then mean nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from problems.types import Prompt, Rollout
from vpo.policies.address import PolicySettings
from vpo.policies.registry import policy_at
from vpo.servers.address import VllmOptions
from vpo.servers.vllm import VllmServer

NAME = "served"
TASKS = ("add two numbers", "reverse a string", "find the largest of three numbers", "count the vowels of a word")
ROOT = Path(__file__).resolve().parent.parent


def prompts(count: int) -> list[Prompt]:
    return [
        Prompt(f"Write a Python function to {TASKS[i % len(TASKS)]}. Variant {i}.", "You write code.", i)
        for i in range(count)
    ]


@contextlib.contextmanager
def served(model: Path) -> Iterator[str]:
    """The URL of a vLLM server of this checkpoint under the name NAME, which asks for no key, ended afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        server = VllmServer(str(model), VllmOptions(context=4096), PolicySettings(), Path(folder), served=NAME, key="")
        server.wait()
        try:
            yield server.url.removesuffix("/v1")
        finally:
            server.close()


@contextlib.contextmanager
def stub_server() -> Iterator[None]:
    """The server of the tests in the place of vLLM."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.vllm_server import write_program

    from vpo.servers import vllm

    usual = vllm.find_program
    with tempfile.TemporaryDirectory() as folder:
        vllm.find_program = lambda: [str(write_program(Path(folder)) / "vllm"), "serve"]
        try:
            yield
        finally:
            vllm.find_program = usual


def gap(ours: list[Any], theirs: list[Any]) -> dict[str, float]:
    """Nats a token."""
    gaps = np.abs(np.concatenate(ours) - np.concatenate(theirs))
    return {"mean": float(gaps.mean()), "largest": float(gaps.max())}


async def sample(policy: Any, count: int, rollouts: int) -> list[Rollout]:
    groups = await policy.sample(prompts(count), rollouts=rollouts, answers=1, seed=1)
    return [rollout for group in groups for rollout in group]


async def logprobs(model: str, options: str) -> dict[str, Any]:
    found = {}
    for temperature in (1.0, 0.7):
        policy = policy_at(f"vllm:{model}?{options}", temperature=temperature, max_tokens=64)
        local: Any = policy_at(model, temperature=temperature, dtype="float32")
        try:
            rollouts = await sample(policy, 4, 4)
            found[f"temperature {temperature:g}"] = {
                **gap([one.logprobs for one in rollouts], await local.logprobs(rollouts)),
                "tokens": sum(one.tokens for one in rollouts),
                "again": sum(a.text == b.text for a, b in zip(rollouts, await sample(policy, 4, 4), strict=True)) / 16,
            }
        finally:
            await policy.close()
            await local.close()
    return found


async def speed(model: str, options: str) -> dict[str, Any]:
    found = {}
    for concurrency, count in ((1, 6), (8, 32), (32, 96)):
        policy = policy_at(f"vllm:{model}?{options}&concurrency={concurrency}", max_tokens=64)
        try:
            await sample(policy, 2, 1)
            began = time.perf_counter()
            tokens = sum(one.tokens for one in await sample(policy, count, 1))
            seconds = time.perf_counter() - began
        finally:
            await policy.close()
        found[str(concurrency)] = {"requests": count, "tokens": tokens, "tokens_per_second": round(tokens / seconds, 1)}
    return found


async def adapters(model: str, options: str) -> list[dict[str, Any]]:
    import torch

    from vpo.training.config import LoraSettings
    from vpo.training.model import merge_adapter, save_adapter, with_adapter

    policy: Any = policy_at(f"vllm:{model}?{options}&lora_rank=8", max_tokens=32)
    local: Any = policy_at(model, dtype="float32")
    found = []
    try:
        rollouts = await sample(policy, 3, 2)
        before = [one.logprobs for one in rollouts]
        for number in (1, 2):
            adapted = with_adapter(policy.learner(), LoraSettings(lora_rank=8), seed=number)
            torch.manual_seed(number)
            with torch.no_grad():
                for name, weight in adapted.named_parameters():
                    if "lora_B" in name:
                        weight.normal_(std=0.02)
            with tempfile.TemporaryDirectory() as folder:
                save_adapter(adapted, Path(folder) / "adapter")
                began = time.perf_counter()
                await policy.update(Path(folder) / "adapter", f"new {number}")
                seconds = time.perf_counter() - began
            await local.update(merge_adapter(adapted).state_dict(), "new")
            now, expected = await policy.logprobs(rollouts), await local.logprobs(rollouts)
            found.append({"seconds": seconds, "moved_by": gap(now, before), "off_by": gap(now, expected)})
    finally:
        await policy.close()
        await local.close()
    return found


PARTS = {"logprobs": logprobs, "speed": speed, "adapters": adapters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--options", default="context=4096", help="of the address: gpu_memory=0.4&dtype=bfloat16")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    model = str(arguments.model.resolve())
    options = "context=256&dtype=float32" if arguments.dry else arguments.options
    found: dict[str, Any] = {"model": arguments.model.name, "cores": os.cpu_count()}
    with stub_server() if arguments.dry else contextlib.nullcontext():
        for part in arguments.parts.split(","):
            found[part] = asyncio.run(PARTS[part](model, options))
            print(json.dumps({part: found[part]}, indent=1), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
