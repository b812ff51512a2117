"""How a search ended, in the form that its run keeps and that --json prints."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from evo.errors import SearchFailed
from evo.runs.launch import Launched
from islands.errors import DatabaseUnavailable, RunBusy


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


@dataclass(frozen=True)
class Concluded:
    """A search that has run and is on record as it ended.

    summary: as its run keeps it; faults: of scorers, each of which stopped a problem
    failure: what failed the search; cancelled: whether it was stopped at once, in the middle of what it did
    """

    outcome: str
    why: str
    summary: dict[str, Any]
    faults: tuple[str, ...]
    failure: SearchFailed | None
    cancelled: bool


async def concluded(launched: Launched) -> Concluded:
    """Run the search and put on record how it ended. Raises DatabaseUnavailable or RunBusy where that cannot be done,
    unless the search failed and its reason is known."""
    failure: SearchFailed | None = None
    reason, cancelled = "", False
    try:
        reason = await launched.search.run()
    except SearchFailed as error:
        failure = error
    except asyncio.CancelledError:
        reason, cancelled = "interrupted twice", True
    outcome, why = ending(launched, reason, failure)
    summary = summarised(launched, outcome, why)
    try:
        launched.finish(outcome, why, summary)
    except (DatabaseUnavailable, RunBusy):
        if failure is None:
            raise  # else the run stays as it was last written
    faults = tuple(lane.stopped for lane in launched.lanes if lane.stopped.startswith("failed"))
    return Concluded(outcome, why, summary, faults, failure, cancelled)


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
