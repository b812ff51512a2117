"""How a search trains the policy that it searches with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from problems.retired import drop_retired
from vpo.advantage import METHODS
from vpo.training.config import Reward, TrainerSettings


class SearchTraining(TrainerSettings):
    """Training during a search: its stored iterations are the batches.

    The newest version of the policy learns from a group once enough groups are there. The PPO ratio, the truncated
    importance weights and the cap correct for the version that wrote it.
    """

    method: str = Field(description="Train the policy during the search by this method: vpo, grpo, ...")
    every: int = Field(16, ge=1, description="Iterations per training step.")
    steps: int | None = Field(None, ge=1, description="Training steps at most; the search continues after them.")
    max_staleness: int | None = Field(
        8, ge=0, description="Drop (and count) groups of versions that are older than this many."
    )
    truncate: float | None = Field(2.0, gt=0.0, description="The cap of truncated importance weights.")
    reward: Reward = Field(
        "value",
        description="The reward of an answer to a prompt with a parent: its value, or its gain over the parents shown.",
    )
    shaping: float = Field(0.0, ge=0.0, description="The weight of an answer's value in addition to its gain.")
    unsolved: bool = Field(False, description="Learn only from problems that are not solved yet.")
    tolerance: float = Field(
        0.05, gt=0.0, description="Nats per token by which sampler and trainer may differ on the probe after a sync."
    )
    save_every: int = Field(
        10, ge=1, description="Steps between checkpoints; a resume repeats the steps since the last."
    )
    keep: int = Field(2, ge=1, description="Checkpoints to keep, in addition to the version promoted last.")
    check: list[str] = Field(
        default_factory=list, description="Held-out problems: a version that does worse on them is rolled back."
    )
    check_every: int = Field(4, ge=1, description="Steps between checks; versions between them do not search.")
    check_limit: int | None = Field(None, ge=1, description="Use only the first K problems of each held-out address.")
    check_answers: int = Field(12, ge=1, description="Answers per problem in a check.")

    @model_validator(mode="after")
    def _sensible(self) -> SearchTraining:
        if self.reward == "gain" and self.method in METHODS and not METHODS[self.method].gains:
            raise ValueError(f"{self.method} has no gain over a parent; use it with reward value")
        if self.reward == "solve" or (self.method in METHODS and METHODS[self.method].success):
            raise ValueError(
                "reward solve takes its goals from a stored search: evo train pass_at_k --reward solve "
                "--parents-from archive:RUN"
            )
        if self.check and self.max_staleness is not None and self.check_every > self.max_staleness:
            raise ValueError(
                f"check_every {self.check_every} must be at most max_staleness {self.max_staleness}: between checks "
                "the groups are those of the version that was promoted last"
            )
        return self


def complete_trainer(values: Mapping[str, Any]) -> dict[str, Any]:
    """A trainer's settings as they were stored, completed: before there was a scale, training ran at the plain one, and
    a resumed run keeps it. max_staleness was called most_behind."""
    kept = {"max_staleness" if key == "most_behind" else key: value for key, value in drop_retired(values).items()}
    return {"scale": "plain", **kept}
