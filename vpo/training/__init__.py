"""Learning from scored groups.

In the order of one step: `examples` turns groups into tokens with advantages, `forward` computes their
log-probabilities, `loss` compares the two, `trainer` steps the optimiser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class TrainingStopped(RuntimeError):
    """Training has to end. The message says why, and what to do."""


class TrainingDiverged(TrainingStopped):
    """The loss or its gradient is not finite. The message names the file that holds the batch."""


@dataclass(frozen=True)
class TrainStats:
    """One optimiser step: the policy version it made ("" for none), and named metrics (loss, kl, ...)."""

    policy_version: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
