"""How a search ended, in the form that its run keeps and that --json prints."""

from __future__ import annotations

from typing import Any

from evo.errors import SearchFailed
from evo.launch import Launched


def ending(launched: Launched, reason: str, failure: SearchFailed | None) -> tuple[str, str]:
    """(outcome, why): done, interrupted or failed. `reason` is what Search.run returned."""
    failed = [lane for lane in launched.lanes if lane.stopped.startswith("failed")]
    if failure is not None:
        return "failed", str(failure)
    if failed and len(failed) == len(launched.lanes):
        outcome = "failed"
    else:
        outcome = "interrupted" if reason.startswith("interrupted") else "done"
    return outcome, reason.split(";")[0] or (f"{len(failed)} problems stopped by scorer faults" if failed else "")


def summarised(launched: Launched, outcome: str, reason: str) -> dict[str, Any]:
    """The run's figures, its problems one by one."""
    status = launched.status
    return {
        "run": status.run,
        "outcome": outcome,
        "reason": reason,
        "policy": launched.policy.version,
        "sandbox": launched.config.sandbox,
        "problems": [
            {
                "name": lane.name,
                "iterations": lane.done,
                "best": lane.best,
                "target": lane.target,
                "solved_at": lane.solved_at,
                "stopped": lane.stopped,
            }
            for lane in status.lanes
        ],
        **status.figures(),
    }
