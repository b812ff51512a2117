"""How a search trains the policy that it searches with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from vpo.advantage import METHODS
from vpo.training.config import Reward, TrainerSettings


class SearchTraining(TrainerSettings):
    """Training beside a search: its prompt groups, as they are stored, are the batches.

    A group is learned from by the version of the policy that is newest when enough groups are there; what that differs
    from the version that wrote it is corrected by the PPO ratio, the truncated importance weights, and the cap.
    """

    method: str = Field(description="train the policy beside the search: vpo, grpo, ...")
    every: int = Field(16, ge=1, description="prompt groups a training step")
    steps: int | None = Field(None, ge=1, description="training steps; the search goes on after them")
    most_behind: int = Field(8, ge=0, description="groups of versions older than this many are dropped and counted")
    truncate: float | None = Field(2.0, gt=0.0, description="cap of truncated importance weights")
    reward: Reward = Field(
        "value",
        description="of an answer to a prompt with a parent: its own value, or its gain over all that was shown",
    )
    shaping: float = Field(0.0, ge=0.0, description="what an answer's own value counts for beside its gain")
    unsolved: bool = Field(False, description="learn from problems alone that are not yet solved")
    tolerance: float = Field(
        0.05, gt=0.0, description="nats a token by which sampler and trainer may differ on the probe after a sync"
    )
    save_every: int = Field(
        10, ge=1, description="steps between checkpoints; those since the last are made again on resume"
    )
    keep: int = Field(2, ge=1, description="checkpoints kept, beside that of the version promoted last")
    min_diversity: float | None = Field(
        None,
        ge=0.0,
        description="stop training when the answers of the last steps' groups are more alike than this (L1)",
    )
    check: list[str] = Field(
        default_factory=list, description="held-out problems that a version must not do harm on; else it is rolled back"
    )
    check_every: int = Field(4, ge=1, description="steps between checks; versions between them do not search")
    check_limit: int | None = Field(None, ge=1, description="problems of each held-out address")
    check_answers: int = Field(12, ge=1, description="answers a problem in a check")

    @model_validator(mode="after")
    def _sensible(self) -> SearchTraining:
        if self.reward == "gain" and self.method in METHODS and not METHODS[self.method].gains:
            raise ValueError(f"{self.method} has no gain over a parent; use it with reward value")
        if self.check and self.check_every > self.most_behind:
            raise ValueError(
                f"check_every {self.check_every} must be at most most_behind {self.most_behind}: between checks the "
                "groups are those of the version that was promoted last"
            )
        return self


def complete_trainer(values: Mapping[str, Any]) -> dict[str, Any]:
    """A trainer's settings as they were stored, with what they leave unsaid: before there was a scale, training ran at
    the plain one, and a resumed run goes on with it."""
    return {"scale": "plain", **values}
