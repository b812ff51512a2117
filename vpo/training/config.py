"""The trainer's settings, each once: what the user gives, flat and under the names of flags and YAML keys, and what
its caller adds. Imports no torch, so that a command line can read them.

A part that one function needs (Estimation, LossConfig, LoraSettings) is a separate model, and TrainConfig is all of
them: it can be passed wherever a part is wanted.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from problems.address import did_you_mean
from vpo.advantage import METHODS
from vpo.policies.prompt_formats import is_token_format
from vpo.scalarize import WeightSampler

Precision = Literal["auto", "fp32", "bf16"]
IMPROVE = "improve"
"""The method of examples: maximum likelihood of what improved on its parent in stored searches. It estimates no
advantages."""


RewardKind = Literal["value", "solve"]
PAPER_RATE, EMBEDDED_RATE = 1e-6, 2.5e-4
"""The learning rate of VPO's models of some billion parameters, and one for the embedded policy's million."""


def default_rate(prompt_format: str) -> float:
    """The learning rate of a policy that is asked in this prompt format, where the user names none."""
    return EMBEDDED_RATE if is_token_format(prompt_format) else PAPER_RATE


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class EstimationSettings(_Settings):
    """How advantages are estimated, as far as the user decides it."""

    method: str = Field("vpo", description="The method: a row of the table of methods (vpo, grpo, ...).")
    weightings: int = Field(100, ge=1, description="Random weightings per group (K).")
    alpha: float = Field(1.0, gt=0.0, description="The concentration of the scalarizations' Dirichlet distribution.")
    sampler: WeightSampler = Field("sobol", description="How scalarizations are drawn.")
    pass_at: int = Field(
        0,
        ge=0,
        description="The K of pass_at_k and vpo_pass_at_k: answers that a search spends on a prompt. 0 = rollouts.",
    )

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        if method not in METHODS and method != IMPROVE:
            raise ValueError(
                f"no method {method!r}; there is {', '.join(METHODS)} and, from traces, {IMPROVE}"
                + did_you_mean(method, [*METHODS, IMPROVE])
            )
        return method


class Estimation(EstimationSettings):
    """How advantages are estimated.

    seed: with a group's place in the run it fixes that group's weights
    reward: of an answer: its value; or solve: 1 if it reaches its Goal, else 0
    """

    seed: int = Field(0, ge=0, description="The seed of every random choice.")
    reward: RewardKind = "value"


class LossSettings(_Settings):
    """What holds a step back.

    kl: of the k3 estimate of KL(policy || reference); 0 needs no reference
    truncate: None clips the ratio policy / behaviour; a number C weights every token by min(C, policy / behaviour)
        instead, truncated importance sampling for stale data
    """

    kl: float = Field(1e-3, ge=0.0, description="The weight of KL(policy || start) in training.")
    truncate: float | None = Field(
        None, gt=0.0, description="The cap of truncated importance weights for stale rollouts."
    )


class LossConfig(LossSettings):
    """What policy_loss takes.

    trust: with `truncate`, a token whose policy / behaviour has left the clip's bounds in its advantage's direction
        teaches nothing more
    """

    trust: bool = False


class LoraSettings(_Settings):
    """A low-rank adapter of all linear layers instead of full fine-tuning (needs peft)."""

    lora_rank: int = Field(0, ge=0, description="Train a LoRA adapter of this rank instead of all weights.")
    lora_alpha: float = Field(16.0, gt=0.0, description="The adapter's scale, which is divided by its rank.")


class TrainerSettings(EstimationSettings, LossSettings, LoraSettings):
    """How a policy learns, as the user gives it. The defaults are VPO's (arXiv 2605.22817), for models of a billion
    parameters; see the cards of the embedded policies for settings that suit a small one."""

    lr: float | None = Field(
        None,
        gt=0.0,
        description="The learning rate; default 1e-6, as in VPO, and 2.5e-4 for an embedded policy.",
    )
    betas: tuple[float, float] = Field((0.9, 0.999), description="AdamW's betas.")
    weight_decay: float = Field(0.01, ge=0.0, description="AdamW's weight decay, on matrices only.")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="The schedule of the learning rate."
    )
    warm_up: int = Field(0, ge=0, description="Steps over which the learning rate rises.")
    token_budget: int = Field(16384, ge=1, description="Padded tokens per micro-batch at most, which bounds memory.")
    precision: Precision = Field(
        "auto", description="The precision of products; auto: bf16 if the processor is fast in it."
    )

    @property
    def has_reference(self) -> bool:
        """Whether the loss compares with the policy as it was at the start."""
        return self.kl > 0


class TrainConfig(TrainerSettings, Estimation, LossConfig):
    """Everything that a trainer is made with: the user's settings, and what its caller decides.

    steps: where the schedule ends; "constant" does not need it
    max_staleness: groups sampled by a policy more than this many versions old are dropped and counted; None keeps all
    """

    steps: int | None = Field(None, ge=1)
    max_staleness: int | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _ends(self) -> TrainConfig:
        if self.schedule != "constant" and not self.steps:
            raise ValueError(f"a {self.schedule} schedule needs the number of steps")
        return self

    @classmethod
    def of(cls, settings: TrainerSettings, **decided: object) -> TrainConfig:
        """The user's settings with what the caller decides: seed, reward, steps, max_staleness, trust."""
        return cls.model_validate({**settings.model_dump(include=set(TrainerSettings.model_fields)), **decided})

    @property
    def learning_rate(self) -> float:
        return self.lr or PAPER_RATE
