"""Adapters on a real vLLM server: what it makes of one, against transformers with the same adapter.

    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve DIR --served-model-name MODEL --logprobs-mode processed_logprobs \\
        --enable-lora --max-lora-rank 16 --max-loras 2
    python -m bench.served_adapters DIR --model MODEL --url http://localhost:8000 --adapters SHARED

Rollouts are sampled from the model as it is. Then adapters of made-up weights go to the server one after another, as
after training steps (vpo.openai.trainable), and each is compared on those rollouts' tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.tables import markdown  # noqa: E402
from problems.types import Prompt, Rollout  # noqa: E402
from vpo.hf.policy import TransformersPolicy  # noqa: E402
from vpo.openai.trainable import AdaptedPolicy  # noqa: E402
from vpo.policies.registry import load_policy  # noqa: E402
from vpo.training.adapters import save_adapter, with_adapter  # noqa: E402
from vpo.training.config import LoraSettings  # noqa: E402

PROMPTS = [Prompt(f"Write a function that {what}.", stream=i) for i, what in enumerate(("adds", "sorts", "counts"))]


def apart(one: list[Any], other: list[Any]) -> str:
    """Nats a token: mean / largest."""
    gaps = np.abs(np.concatenate(one) - np.concatenate(other))
    return f"{gaps.mean():.1e} / {gaps.max():.1e}"


def filled(model: Any, size: float, seed: int) -> Any:
    """The model with an adapter whose second matrices, which begin as zeros, are noise of this size."""
    adapted = with_adapter(model, LoraSettings(lora_rank=8), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.copy_(size * torch.randn(weight.shape, generator=generator))
    return adapted


async def measure(options: argparse.Namespace) -> str:
    address = f"openai:{options.model}@{options.url}?weights={options.folder}&adapters={options.adapters}"
    policy: Any = load_policy(address, max_tokens=options.tokens)
    assert isinstance(policy, AdaptedPolicy)
    rows = [["adapter", "seconds to write and load", "moved by", "off from transformers by", "sampled, read again"]]
    try:
        groups = await policy.sample(PROMPTS, rollouts=2, answers=1, seed=0)
        rollouts = [one for group in groups for one in group]
        start, model = [one.logprobs for one in rollouts], policy.learner()
        rows.append(
            [
                "none",
                "",
                "",
                apart(start, await told(model, policy, rollouts)),
                apart(start, await policy.logprobs(rollouts)),
            ]
        )
        for seed, size in enumerate((0.005, 0.02)):
            adapted, began = filled(model, size, seed), time.perf_counter()
            await policy.update_adapter(partial(save_adapter, adapted), f"noise {size}")
            seconds, now = time.perf_counter() - began, await policy.logprobs(rollouts)
            expected = await told(adapted, policy, rollouts)
            model = adapted.unload()
            own = [one for group in await policy.sample(PROMPTS, rollouts=1, answers=1, seed=1) for one in group]
            again = apart([one.logprobs for one in own], await policy.logprobs(own))
            rows.append([policy.version, f"{seconds:.1f}", apart(now, start), apart(now, expected), again])
    finally:
        await policy.close()
    return markdown(rows)


async def told(model: Any, policy: AdaptedPolicy, rollouts: list[Rollout]) -> list[Any]:
    """What transformers makes of the rollouts' tokens."""
    plain = TransformersPolicy(model, policy.tokenizer, version="plain", temperature=1.0, top_p=1.0)
    found = await plain.logprobs(rollouts)
    await plain.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="what the server serves")
    parser.add_argument("--model", required=True)
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--adapters", required=True)
    parser.add_argument("--tokens", type=int, default=32)
    print(asyncio.run(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
