"""The trainer's settings: one dataclass, a line on each field."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from vpo.advantage import METHODS
from vpo.training.examples import Aggregation, Estimation
from vpo.training.loss import LossConfig

SCHEDULES = ("constant", "linear", "cosine")
Precision = Literal["fp32", "bf16"]


@dataclass(frozen=True)
class LoraSettings:
    """A low-rank adapter instead of full fine-tuning (needs peft). rank 0 = none; targets: module names, or all linear
    layers."""

    rank: int = 0
    alpha: float = 16.0
    targets: tuple[str, ...] | Literal["all-linear"] = "all-linear"


@dataclass(frozen=True)
class TrainConfig:
    """How a policy learns. The defaults are VPO's (arXiv 2605.22817), for models of a billion parameters; see the
    cards of the embedded policies for settings that suit a small one.

    estimation: the method and its sampled weights; loss: clip, KL, importance weights
    aggregation: "token" weighs every completion token of a step alike, "sequence" every rollout
    learning_rate, betas, weight_decay: of AdamW; decay applies to matrices, not to norms and biases
    schedule: of the learning rate after `warm_up` steps, over `steps` in all; "constant" does not need `steps`
    grad_clip: largest gradient norm
    epochs: passes over a batch of groups; minibatches: optimiser steps a pass is cut into
    token_budget: padded tokens in one micro-batch; what bounds memory, and nothing else
    precision: "bf16" multiplies in bfloat16 over float32 weights (autocast)
    shared_prefix: run a group's prompt once instead of once a rollout
    gradient_checkpointing: recompute activations; implies the plain forward
    attention: implementation while training; None keeps the model's own, but takes "eager" for a small model on a CPU,
        where it is twice as fast as the fused kernel's backward
    most_behind: groups sampled by a policy more than this many versions old are dropped and counted; None keeps all
    seed: of everything the trainer draws
    """

    estimation: Estimation = field(default_factory=Estimation)
    loss: LossConfig = field(default_factory=lambda: LossConfig(kl=1e-3))
    aggregation: Aggregation = "token"
    learning_rate: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01
    schedule: str = "constant"
    warm_up: int = 0
    steps: int | None = None
    grad_clip: float = 1.0
    epochs: int = 1
    minibatches: int = 1
    token_budget: int = 16384
    precision: Precision = "fp32"
    shared_prefix: bool = True
    gradient_checkpointing: bool = False
    attention: str | None = None
    most_behind: int | None = None
    lora: LoraSettings = field(default_factory=LoraSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.estimation.method not in METHODS:
            raise ValueError(f"no training method {self.estimation.method!r}; there is {', '.join(METHODS)}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule {self.schedule!r} is none of {', '.join(SCHEDULES)}")
        if self.schedule != "constant" and not self.steps:
            raise ValueError(f"a {self.schedule} schedule needs the number of steps")
        if not self.learning_rate > 0 or not self.grad_clip > 0:
            raise ValueError("learning_rate and grad_clip must be above 0")
        if min(self.epochs, self.minibatches, self.token_budget) < 1:
            raise ValueError("epochs, minibatches and token_budget must be at least 1")
        if self.precision not in ("fp32", "bf16"):
            raise ValueError(f"precision {self.precision!r} is neither fp32 nor bf16")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a card or a stored configuration."""
        return asdict(self)
