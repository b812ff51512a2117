"""`examples/pipelines/livecodebench.yaml` cut down to a small model and a handful of problems, as a file to run.

    python bench/livecodebench_small.py DATA MODEL > small.yaml && evo pipeline small.yaml -o DIR

DATA: a file or folder of LiveCodeBench's own form, as examples/livecodebench. The stages are the example's; what is
overridden stands below.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

EXAMPLE = Path(__file__).parents[1] / "examples" / "pipelines" / "livecodebench.yaml"
TRAIN = {"steps": 1, "rollouts": 2, "limit": 4, "save_every": 10, "lora_rank": 8}


def cut(data: str, model: str) -> str:
    """The example with DATA, MODEL and little of everything."""
    pipeline = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    stages = pipeline["stages"]
    for name, prompts, tokens in (("grpo", 3, 48), ("vpo", 1, 120)):
        stages[name]["train"] |= TRAIN | {"policy": model, "prompts": prompts, "max_new_tokens": tokens}
        stages[f"{name}-alone"]["evaluate"] |= {"limit": 2, "max_new_tokens": tokens}
        stages["search"]["compare"]["arms"][name]["max_new_tokens"] = tokens
    stages["hard"]["pick"]["at_most"] = 0.99  # a model that writes next to nothing still passes a test by chance
    stages["search"]["compare"] |= {"iterations": 2, "seeds": 1, "limit": 2}
    return yaml.safe_dump(pipeline, sort_keys=False).replace("livecodebench:livecodebench?", f"livecodebench:{data}?")


if __name__ == "__main__":
    print(cut(*sys.argv[1:]))
