"""The gradient with a shared prompt against the plain one, on real models: every parameter, every layer, float32.

    python bench/prefix_gradient.py DIR [DIR ...] [--json FILE]

Two groups of random tokens (seed 0): prompts of 96 and 61 tokens, completions of 1 to 24, weighed at random. Told: the
largest relative error over parameters, |shared - plain| / |plain|, and the largest difference of a log-probability.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

from vpo.training.examples import Example, ExampleGroup  # noqa: E402
from vpo.training.forward import can_share, completion_logprobs, pack  # noqa: E402

SEED = 0


def gradient_error(path: str) -> dict[str, Any]:
    """Shared against plain on a real model: ragged prompts, completions (one of a single token) and groups."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    rng = np.random.default_rng(SEED)
    zeros = np.zeros(0, np.float32)
    shape = [(96, (24, 1, 13, 20)), (61, (7, 18))]

    def draw(length: int) -> np.ndarray:
        return rng.integers(10, model.config.vocab_size, length).astype(np.int32)

    groups = [
        ExampleGroup(draw(prompt), tuple(Example(draw(n), zeros, zeros) for n in lengths), 1.0)
        for prompt, lengths in shape
    ]
    packed = pack(groups)
    assert can_share(model, packed)
    weights = torch.randn(int(packed.mask.sum()), generator=torch.Generator().manual_seed(SEED))
    found = {}
    for shared in (True, False):
        model.zero_grad()
        flat = completion_logprobs(model, packed, shared=shared)[packed.mask]
        (flat * weights).sum().backward()
        found[shared] = flat.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}
    errors = {
        name: float((found[True][1][name] - gradient).norm() / gradient.norm())
        for name, gradient in found[False][1].items()
    }
    worst = max(errors, key=lambda name: errors[name])
    return {
        "model": f"{model.config.model_type}, {sum(p.numel() for p in model.parameters()) / 1e6:.0f}M parameters",
        "layers": model.config.num_hidden_layers,
        "parameters_compared": len(errors),
        "largest_relative_gradient_error": errors[worst],
        "in": worst,
        "largest_log_probability_difference": float((found[True][0] - found[False][0]).abs().max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="DIR", nargs="+")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    result = {
        "seed": SEED,
        "commit": commit.stdout.strip(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "models": [gradient_error(path) for path in arguments.models],
    }
    print(json.dumps(result, indent=1))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
