"""AdamW and the schedule of its learning rate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from vpo.training.config import TrainConfig


def make_optimizer(
    parameters: Sequence[torch.nn.Parameter], config: TrainConfig, device: str
) -> tuple[torch.optim.AdamW, LambdaLR]:
    """AdamW over these parameters, with weight decay on matrices alone, and its schedule, which counts updates.

    device: the type of the device that holds them ("cpu", "cuda", ...)
    """
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        betas=config.betas,
        fused=device in ("cpu", "cuda"),
    )
    updates = config.epochs * config.minibatches
    name = "constant_with_warmup" if config.schedule == "constant" else config.schedule
    return optimizer, get_scheduler(name, optimizer, config.warm_up * updates, config.steps and config.steps * updates)
