"""What a trainer is to a search: prompt groups go in, one step comes out, and the policy may have a new version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from problems.types import ScoredGroup


class TrainingDiverged(RuntimeError):
    """The loss or its gradient is not finite. The message names the file that holds the batch."""


@dataclass(frozen=True)
class TrainStats:
    """One optimiser step: the policy version it made ("" where none was), and named figures (loss, kl, ...)."""

    policy_version: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)


class Trainer(Protocol):
    """Learns from groups as the search commits them."""

    def step(self, groups: Sequence[ScoredGroup]) -> TrainStats: ...


class FrozenTrainer:
    """Leaves the policy as it is: the trainer of a search that does not train."""

    def step(self, groups: Sequence[ScoredGroup]) -> TrainStats:
        return TrainStats()
