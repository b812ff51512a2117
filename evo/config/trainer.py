"""What decides how a policy learns, in a training run of its own and beside a search alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from vpo.advantage import METHODS

if TYPE_CHECKING:
    from vpo.training.config import TrainConfig

PAPER_RATE, EMBEDDED_RATE = 1e-6, 2.5e-4
"""The learning rate of VPO's models of some billion parameters, and one for the embedded policy's million."""


class TrainerSettings(BaseModel):
    """The trainer's settings, as the user gives them."""

    model_config = ConfigDict(extra="forbid")

    method: str = Field("vpo", description="a row of the table of methods (vpo, grpo, ...)")
    lr: float | None = Field(
        None,
        gt=0.0,
        description="learning rate of training; default 1e-6, as in VPO, but 2.5e-4 for an embedded policy",
    )
    betas: tuple[float, float] = Field((0.9, 0.999), description="of AdamW")
    weight_decay: float = Field(0.01, ge=0.0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warm_up: int = Field(0, ge=0, description="steps over which the learning rate rises")
    clip_low: float = Field(0.2, gt=0.0, lt=1.0, description="the ratio counts from 1 - clip_low")
    clip_high: float = Field(0.2, gt=0.0, description="the ratio counts up to 1 + clip_high")
    kl: float = Field(1e-3, ge=0.0, description="weight of KL(policy || start) in training")
    truncate: float | None = Field(None, gt=0.0, description="cap of truncated importance weights for stale rollouts")
    aggregation: Literal["token", "sequence"] = Field("token", description="what the loss is a mean over")
    grad_clip: float = Field(1.0, gt=0.0)
    epochs: int = Field(1, ge=1, description="passes over a step's groups")
    minibatches: int = Field(1, ge=1, description="optimiser steps a pass is cut into")
    token_budget: int = Field(16384, ge=64, description="padded tokens in a micro-batch; bounds memory")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 where the processor is fast in it"
    )
    shared_prefix: bool = Field(True, description="run a group's prompt once")
    gradient_checkpointing: bool = False
    lora_rank: int = Field(0, ge=0, description="train a LoRA adapter of this rank instead of all weights")
    lora_alpha: float = Field(16.0, gt=0.0)

    scale: Literal["official", "plain"] = Field(
        "official", description="of the baselines' advantages: as in VPO's repository, or as runs before it had them"
    )
    weights: int = Field(100, ge=1, description="K, scalarizations a prompt group is judged under")
    alpha: float = Field(1.0, gt=0.0, description="of their Dirichlet distribution")
    sampler: Literal["iid", "sobol"] = "sobol"

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        if method not in METHODS:
            raise ValueError(f"no method {method!r}; there is {', '.join(METHODS)}")
        return method

    def trainer_config(
        self, *, seed: int, device: str | None = None, steps: int | None = None, most_behind: int | None = None
    ) -> TrainConfig:
        """As the trainer takes them. steps: of the schedule, where that has an end."""
        from vpo.training.config import LoraSettings, TrainConfig
        from vpo.training.examples import Estimation
        from vpo.training.loss import LossConfig

        return TrainConfig(
            estimation=Estimation(self.method, self.weights, self.alpha, self.sampler, seed, self.scale),
            loss=LossConfig(self.clip_low, self.clip_high, self.kl, self.truncate),
            aggregation=self.aggregation,
            learning_rate=self.lr or PAPER_RATE,
            betas=self.betas,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            warm_up=self.warm_up,
            steps=steps,
            grad_clip=self.grad_clip,
            epochs=self.epochs,
            minibatches=self.minibatches,
            token_budget=self.token_budget,
            precision=_precision(self.precision, device),
            shared_prefix=self.shared_prefix,
            gradient_checkpointing=self.gradient_checkpointing,
            most_behind=most_behind,
            lora=LoraSettings(self.lora_rank, self.lora_alpha),
            seed=seed,
        )


def stored_trainer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were stored, with what they leave unsaid: before there was a scale, training ran at the plain
    one, and a resumed run goes on with it."""
    return {"scale": "plain", **values}


def _precision(asked: str, device: str | None) -> Literal["fp32", "bf16"]:
    import torch

    if asked != "auto":
        return "bf16" if asked == "bf16" else "fp32"
    if torch.cuda.is_available() and (device or "cuda").startswith("cuda"):
        return "bf16"
    probe = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return "bf16" if probe and probe() else "fp32"
