"""What a step of training gives, and how one fails (vpo.training.trainer takes them)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class TrainingDiverged(RuntimeError):
    """The loss or its gradient is not finite. The message names the file that holds the batch."""


@dataclass(frozen=True)
class TrainStats:
    """One optimiser step: the policy version it made ("" where none was), and named metrics (loss, kl, ...)."""

    policy_version: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
