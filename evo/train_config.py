"""The configuration of a training run: one validated object, from YAML and flags, stored beside its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vpo.advantage import METHODS

if TYPE_CHECKING:
    from vpo.training.config import TrainConfig


PAPER_RATE, EMBEDDED_RATE = 1e-6, 2.5e-4
"""The learning rate of VPO's models of some billion parameters, and one for the embedded policy's million."""


class TrainRun(BaseModel):
    """Everything that decides a training run. One seed and one configuration give one run."""

    model_config = ConfigDict(extra="forbid")

    method: str = Field("vpo", description="a row of the table of methods (vpo, grpo, ...)")
    problems: list[str] = Field(default_factory=list, description="problem addresses to learn from")
    limit: int | None = Field(None, ge=1, description="only the first K problems of each set")
    policy: str = Field("embedded:base", description="where training starts")
    steps: int = Field(200, ge=1, description="optimiser steps")
    max_seconds: float | None = Field(None, gt=0, description="stop after this long, held-out evaluation left out")
    max_answers: int | None = Field(None, ge=1, description="stop after this many answers were asked for")
    seed: int = Field(0, ge=0, description="decides every random choice")

    prompts: int = Field(8, ge=1, description="prompt groups a step")
    rollouts: int = Field(8, ge=1, le=1024, description="G, rollouts in a prompt group")
    answers: int | None = Field(None, ge=1, le=32, description="m, answers a rollout; default 3 for chains, else 1")
    temperature: float = Field(1.0, gt=0.0, le=5.0, description="of sampling, in training")
    max_new_tokens: int | None = Field(None, ge=1, description="per rollout; default by answer format and count")
    parents: float = Field(
        0.25, ge=0.0, le=1.0, description="share of prompts that show a parent, an answer of the step before"
    )

    lr: float | None = Field(
        None, gt=0.0, description="learning rate of AdamW; default 1e-6, as in VPO, but 2.5e-4 for an embedded policy"
    )
    betas: tuple[float, float] = Field((0.9, 0.999), description="of AdamW")
    weight_decay: float = Field(0.01, ge=0.0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warm_up: int = Field(0, ge=0, description="steps over which the learning rate rises")
    clip_low: float = Field(0.2, gt=0.0, lt=1.0, description="the ratio counts from 1 - clip_low")
    clip_high: float = Field(0.2, gt=0.0, description="the ratio counts up to 1 + clip_high")
    kl: float = Field(1e-3, ge=0.0, description="coefficient of KL(policy || start), k3")
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

    weights: int = Field(100, ge=1, description="K, scalarizations a prompt group is judged under")
    alpha: float = Field(1.0, gt=0.0, description="of their Dirichlet distribution")
    sampler: Literal["iid", "sobol"] = "sobol"

    evaluate: list[str] = Field(default_factory=list, description="held-out problem addresses")
    evaluate_every: int = Field(50, ge=1, description="steps between held-out evaluations")
    evaluate_limit: int | None = Field(None, ge=1)
    evaluate_answers: int = Field(30, ge=1, description="answers a problem in an evaluation")
    save_every: int = Field(50, ge=1, description="steps between checkpoints")
    keep: int = Field(2, ge=1, description="checkpoints kept beside the final one")
    sandbox: Literal["auto", "bwrap", "landlock", "none"] = "auto"
    device: str | None = None
    trackers: list[Literal["tensorboard", "wandb"]] = Field(default_factory=list, description="where figures also go")

    @model_validator(mode="after")
    def _sensible(self) -> TrainRun:
        if self.method not in METHODS:
            raise ValueError(f"no method {self.method!r}; there is {', '.join(METHODS)}")
        if self.answers is not None and self.answers > 1 and not METHODS[self.method].chain:
            raise ValueError(f"{self.method} learns from single answers: answers must be 1, not {self.answers}")
        if self.rollouts < 2 and METHODS[self.method].credit == "rollout":
            raise ValueError("a group of one rollout has nothing to compare: rollouts must be 2 or more")
        return self

    @property
    def chain(self) -> int:
        """m, as the method needs it."""
        return self.answers or (3 if METHODS[self.method].chain else 1)

    def trainer_config(self) -> TrainConfig:
        """The part that is the trainer's."""
        from vpo.training.config import LoraSettings, TrainConfig
        from vpo.training.examples import Estimation
        from vpo.training.loss import LossConfig

        return TrainConfig(
            estimation=Estimation(self.method, self.weights, self.alpha, self.sampler, self.seed),
            loss=LossConfig(self.clip_low, self.clip_high, self.kl, self.truncate),
            aggregation=self.aggregation,
            learning_rate=self.lr or PAPER_RATE,
            betas=self.betas,
            weight_decay=self.weight_decay,
            schedule=self.schedule,
            warm_up=self.warm_up,
            steps=self.steps,
            grad_clip=self.grad_clip,
            epochs=self.epochs,
            minibatches=self.minibatches,
            token_budget=self.token_budget,
            precision=_precision(self.precision, self.device),
            shared_prefix=self.shared_prefix,
            gradient_checkpointing=self.gradient_checkpointing,
            lora=LoraSettings(self.lora_rank, self.lora_alpha),
            seed=self.seed,
        )


def _precision(asked: str, device: str | None) -> Literal["fp32", "bf16"]:
    import torch

    if asked != "auto":
        return "bf16" if asked == "bf16" else "fp32"
    if torch.cuda.is_available() and (device or "cuda").startswith("cuda"):
        return "bf16"
    probe = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return "bf16" if probe and probe() else "fp32"
