"""Runs a search to its end, and records how it ended in the form that its run keeps and that --json prints.

A database server may be away for a while: the search waits for it and continues after its last committed group. What
was in flight is sampled again, as after a kill. Only a server is waited for: if SQLite cannot be written, a disk is
full or a file is gone, and waiting does not help.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed
from evo.runs.launch import Launched
from evo.search.status import SearchStatus
from evo.search.stop import INTERRUPTED, Stop, StopReason
from islands.db.store import Store
from islands.errors import DatabaseUnavailable, RunBusy
from islands.queries.training import checkpoints

DEADLINE = 3600.0
"""Seconds after which a database server counts as gone for good."""
PAUSES = (0.5, 15.0)
"""Between attempts: doubling from the first to the second."""


@dataclass(frozen=True)
class Ended:
    """How a run ended, in plain values.

    outcome, reason: as stored: done, interrupted or failed, and why if there is more to say
    faults: of scorers, each of which stopped a problem
    """

    run: str
    outcome: str
    reason: str
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, ended: Ended) -> Ended:
        """Only this much of a SearchOutcome, for another process."""
        return cls(ended.run, ended.outcome, ended.reason, ended.faults)


@dataclass(frozen=True)
class SearchOutcome(Ended):
    """A search that has run, and is on record as it ended.

    summary: as its run keeps it
    failure: what failed the search; cancelled: whether it was stopped at once, in the middle of its work
    config, status, checkpoints: of a search in this process: its settings, counters and trained policies; None and []
        for one on a cluster
    """

    summary: dict[str, Any] = field(default_factory=dict)
    failure: SearchFailed | None = None
    cancelled: bool = False
    config: RunConfig | None = None
    status: SearchStatus | None = None
    checkpoints: Sequence[str] = ()


async def run_to_end(launched: Launched) -> SearchOutcome:
    """Run the search and put on record how it ended. Raises DatabaseUnavailable or RunBusy if that cannot be done,
    unless the search failed and its reason is known."""
    failure: SearchFailed | None = None
    stop, cancelled = INTERRUPTED, False
    try:
        stop, failure = await _search(launched)
    except asyncio.CancelledError:
        cancelled = True
    outcome, why = outcome_of(launched, stop, failure)
    summary = summarize(launched, outcome, why, StopReason.FAILED if failure is not None else stop.reason)
    try:
        launched.finish(outcome, why, summary)
    except (DatabaseUnavailable, RunBusy):
        if failure is None:
            raise  # else the run stays as it was last written
    faults = tuple(str(problem_run.stop) for problem_run in launched.problem_runs if problem_run.failed)
    saved = checkpoints(launched.store, launched.run.id) if launched.config.train and failure is None else []
    return SearchOutcome(
        launched.run.name, outcome, why, faults, summary, failure, cancelled, launched.config, launched.status, saved
    )


async def _search(launched: Launched) -> tuple[Stop, SearchFailed | None]:
    """Why the search ended, with what failed it; a database that was away for a while does not."""
    while True:
        try:
            stop = await launched.search.run()
            return stop, SearchFailed(stop.message) if stop.reason is StopReason.UNANSWERED else None
        except SearchFailed as error:
            try:
                if not await recover_database(launched, error):
                    return INTERRUPTED, error
            except (BadInput, RunBusy) as reason:  # somebody else continues it, or changed what it searches
                return INTERRUPTED, SearchFailed(str(reason))


async def recover_database(launched: Launched, error: SearchFailed) -> bool:
    """Whether a search that lost its database has it back and is ready to continue, rebuilt in `launched`. Interrupts
    end the waiting."""
    cause = error.__cause__
    waits = isinstance(cause, DatabaseUnavailable) and launched.store.dialect == "postgresql"
    if not waits or launched.core.stopped is not None or launched.config.train is not None:
        return False
    db = launched.store.url.render_as_string(hide_password=False)
    warnings.warn(f"run {launched.run.name} waits for its database, and will continue: {cause}", stacklevel=2)
    pause, waited = PAUSES[0], 0.0
    while waited < DEADLINE:
        await asyncio.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, PAUSES[1])
        if launched.core.stopped is not None:
            return False
        try:
            await asyncio.to_thread(_check_reachable, db)
            await _rebuild(launched, db)
        except DatabaseUnavailable:
            continue
        warnings.warn(f"run {launched.run.name} has its database back and continues", stacklevel=2)
        return True
    return False


def _check_reachable(db: str) -> None:
    """Raises DatabaseUnavailable while the server does not answer."""
    Store.open(db, read_only=True).close()


async def _rebuild(launched: Launched, db: str) -> None:
    """Replace the search that failed by the search as its record has it now."""
    from evo.runs.resume import relaunch, relaunch_shard  # with what reads every kind of run: few searches need it

    old = launched.search
    launched.store.close()
    if launched.shard is None:
        new = await relaunch(launched.run.name, db=db, shared=launched.shared)
    else:
        number = launched.shard.number
        new = await relaunch_shard(launched.run.name, number, db=db, node=launched.node, shared=launched.shared)
    new.search.on_commit = old.on_commit
    if old.paused:
        new.search.pause()
    launched.search, launched.run = new.search, new.run


def outcome_of(launched: Launched, stop: Stop, failure: SearchFailed | None) -> tuple[str, str]:
    """(outcome, why): done, interrupted or failed."""
    if failure is not None:
        return "failed", str(failure)
    reasons = [one.stop.reason for one in launched.problem_runs if one.stop is not None and one.failed]
    failed, too_long = len(reasons), reasons.count(StopReason.TOO_LONG)
    interrupted = stop.reason is StopReason.INTERRUPTED
    causes = (("the scorer failed on", failed - too_long), ("the prompt does not fit the model for", too_long))
    faults = " and ".join(f"{cause} {count} problem{'s' * (count > 1)}" for cause, count in causes if count)
    why = "interrupted" if interrupted else str(stop) or (faults if failed else "")
    if failed and failed == len(launched.problem_runs):
        return "failed", why
    return "interrupted" if interrupted else "done", why


def summarize(launched: Launched, outcome: str, reason: str, ended_by: StopReason) -> dict[str, Any]:
    """The run's metrics, with its problems one by one."""
    status = launched.status
    return {
        "run": status.run,
        "outcome": outcome,
        "reason": reason,
        "ended_by": ended_by.value,
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
