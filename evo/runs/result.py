"""How a search ended, in the form that its run keeps and that --json prints."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from evo.errors import BadInput, SearchFailed
from evo.runs.launch import Launched
from evo.runs.outage import go_on_after
from evo.search.stop import INTERRUPTED, Stop, StopReason
from islands.errors import DatabaseUnavailable, RunBusy


def outcome_of(launched: Launched, stop: Stop, failure: SearchFailed | None) -> tuple[str, str]:
    """(outcome, why): done, interrupted or failed."""
    if failure is not None:
        return "failed", str(failure)
    failed = sum(one.failed for one in launched.problem_runs)
    interrupted = stop.reason is StopReason.INTERRUPTED
    faults = "one problem stopped at a fault of its scorer"
    if failed > 1:
        faults = f"{failed} problems stopped at faults of their scorers"
    why = "interrupted" if interrupted else str(stop) or (faults if failed else "")
    if failed and failed == len(launched.problem_runs):
        return "failed", why
    return "interrupted" if interrupted else "done", why


@dataclass(frozen=True)
class Conclusion:
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


async def run_to_end(launched: Launched) -> Conclusion:
    """Run the search and put on record how it ended. Raises DatabaseUnavailable or RunBusy where that cannot be done,
    unless the search failed and its reason is known."""
    failure: SearchFailed | None = None
    stop, cancelled = INTERRUPTED, False
    try:
        stop, failure = await _search(launched)
    except asyncio.CancelledError:
        cancelled = True
    outcome, why = outcome_of(launched, stop, failure)
    summary = summarize(launched, outcome, why)
    try:
        launched.finish(outcome, why, summary)
    except (DatabaseUnavailable, RunBusy):
        if failure is None:
            raise  # else the run stays as it was last written
    faults = tuple(str(one.stop) for one in launched.problem_runs if one.failed)
    return Conclusion(outcome, why, summary, faults, failure, cancelled)


async def _search(launched: Launched) -> tuple[Stop, SearchFailed | None]:
    """Why the search ended, with what failed it; a database that was away for a while does not."""
    while True:
        try:
            return await launched.search.run(), None
        except SearchFailed as error:
            try:
                if not await go_on_after(launched, error):
                    return INTERRUPTED, error
            except (BadInput, RunBusy) as reason:  # somebody else goes on with it, or changed what it searches
                return INTERRUPTED, SearchFailed(str(reason))


def summarize(launched: Launched, outcome: str, reason: str) -> dict[str, Any]:
    """The run's metrics, its problems one by one."""
    status = launched.status
    return {
        "run": status.run,
        "outcome": outcome,
        "reason": reason,
        "policy": launched.policy.version,
        "sandbox": launched.config.sandbox,
        "problems": [
            {
                "name": problem_run.name,
                "iterations": problem_run.done,
                "best": problem_run.best,
                "target": problem_run.target,
                "solved_at": problem_run.solved_at,
                "stopped": str(problem_run.stop or ""),
            }
            for problem_run in status.problem_runs
        ],
        **status.metrics(),
    }
