"""What is kept of a batch whose loss or gradient is not finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from vpo.training.config import TrainConfig
from vpo.training.examples import ExampleGroup


def save_diverged(
    folder: Path,
    step: int,
    groups: Sequence[ExampleGroup],
    values: Mapping[str, float],
    config: TrainConfig,
    *,
    process: int | None = None,
) -> str:
    """Save the batch of the step that failed into `folder`; returns the message that says so and what to try.

    values: the step's metrics, some of them not finite; process: its index where several train together
    """
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "" if process is None else f"-process-{process}"
    file = folder / f"diverged-step-{step}{suffix}.pt"
    torch.save({"step": step, "values": dict(values), "config": config, "groups": list(groups)}, file)
    bad = ", ".join(f"{name} {value}" for name, value in values.items() if not np.isfinite(value))
    return (
        f"training stopped at step {step}: {bad}. The weights are those of step {step - 1}; the batch is in {file}. "
        "Try a smaller learning rate, or precision fp32"
    )
