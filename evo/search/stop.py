"""Why a search, one of its problems, or a training run stops."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from islands.types import RunRecord


class StopReason(StrEnum):
    """FINISHED: all that was planned is done. SOLVED, FAILED, PLATEAU: of a problem. TOO_LONG: of a problem whose
    prompts do not fit the model. INTERRUPTED: from outside. UNANSWERED: too many replies in a row held no answer."""

    FINISHED = "finished"
    SOLVED = "solved"
    FAILED = "failed"
    PLATEAU = "plateau"
    TOO_LONG = "too long"
    UNANSWERED = "unanswered"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Stop:
    """A reason, and a message if there is more to report. budget: of what, if one is spent: tokens, cost, answers or
    seconds"""

    reason: StopReason
    message: str = ""
    budget: str = ""

    def __str__(self) -> str:
        """The reason in summaries and on screens."""
        if self.reason is StopReason.FINISHED:
            return ""
        if self.reason in (StopReason.BUDGET, StopReason.INTERRUPTED, StopReason.UNANSWERED, StopReason.TOO_LONG):
            return self.message or str(self.reason.value)
        return f"{self.reason.value}: {self.message}" if self.message else str(self.reason.value)


def ended_by(run: RunRecord) -> StopReason | None:
    """What ended a run, by its summary; None while it has not ended, and if another version wrote something else."""
    value = run.summary.get("ended_by")
    return StopReason(value) if value in set(StopReason) else None


FINISHED = Stop(StopReason.FINISHED)
SOLVED = Stop(StopReason.SOLVED)
INTERRUPT = Stop(StopReason.INTERRUPTED)
FINISHING = Stop(StopReason.INTERRUPTED, "interrupted; finishing the iterations in flight")
