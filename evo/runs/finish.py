"""Run a search to its end, and record how it ended in the form that its run keeps and that --json prints.

A search that loses its database fails with everything committed; a resume continues it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.runs.start import OpenRun
from evo.search.problem_run import ProblemRun
from evo.search.status import LACKING, SearchStatus, remedy_of_repeats
from evo.search.stop import INTERRUPT, Stop, StopReason
from evo.values import as_dict, target_value
from islands.browse import failed_candidates
from islands.errors import DatabaseUnavailable, RunBusy
from islands.runs import format_errors
from islands.store import Store
from islands.training import checkpoints
from islands.types import OF_ROLLOUTS, REPLIES
from problems.objectives import is_lower, seeded_objectives

_REASONS = 5
"""Why nothing was scored: the most frequent reasons."""


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    outcome, reason: as stored: done, interrupted or failed, and the reason if there is one
    faults: of scorers, each of which stopped a problem
    """

    run: str
    outcome: str
    reason: str
    faults: tuple[str, ...] = ()


def read_ended(db: str, names: Iterable[str]) -> list[Ended]:
    """How these runs ended, those that had begun, as their searches recorded it."""
    ended = []
    with Store.open(db, read_only=True) as store:
        for run in map(store.run, names):
            stopped = {problem["name"]: problem["stopped"] for problem in run.summary.get("problems", ())}
            failed = [record for record in store.problems(run.id) if record.status == "failed"]
            faults = tuple(stopped.get(record.name) or record.message for record in failed)
            if run.status == "running":  # its search has ended
                ended.append(Ended(run.name, "failed", "its end could not be stored", faults))
            elif run.status != "waiting":
                ended.append(Ended(run.name, run.status, run.reason, faults))
    return ended


@dataclass(frozen=True)
class SearchOutcome(Ended):
    """A search that has ended and is recorded.

    summary: as its run keeps it
    failure: the error that ended the search; cancelled: whether it was stopped at once, without finishing its work
    config, status, checkpoints: settings, counters and trained policies of the search
    """

    summary: dict[str, Any] = field(default_factory=dict)
    failure: SearchFailed | None = None
    cancelled: bool = False
    config: RunConfig | None = None
    status: SearchStatus | None = None
    checkpoints: Sequence[str] = ()


async def run_to_end(
    opening: Callable[[], Coroutine[Any, Any, OpenRun]], during: Callable[[OpenRun], AbstractAsyncContextManager[None]]
) -> SearchOutcome:
    """Search a run to its end, record how it ended, and close it. Raises DatabaseUnavailable or RunBusy if it cannot be
    recorded, unless the search failed: its failure is then returned.

    opening: starts or resumes the run; during: what surrounds its search
    """
    open_run, failure = await opening(), None
    stop, cancelled = INTERRUPT, False
    try:
        async with during(open_run):
            try:
                stop = await open_run.search.run()
                if stop.reason is StopReason.UNANSWERED:
                    failure = SearchFailed(stop.message)
            except SearchFailed as error:
                failure = error
            except asyncio.CancelledError:
                cancelled = True
            outcome, why, summary = end_run(open_run, stop, failure)
        faults = tuple(str(problem_run.stop) for problem_run in open_run.problem_runs if problem_run.failed)
        saved = checkpoints(open_run.store, open_run.run.id) if open_run.config.train and failure is None else []
        name, config, status = open_run.run.name, open_run.config, open_run.status
        return SearchOutcome(name, outcome, why, faults, summary, failure, cancelled, config, status, saved)
    finally:
        await open_run.close()


def end_run(open_run: OpenRun, stop: Stop, failure: SearchFailed | None = None) -> tuple[str, str, dict[str, Any]]:
    """Record how the run ended, and which problems have had all their iterations. Returns the outcome, its reason, and
    the summary. Raises DatabaseUnavailable or RunBusy, unless the search failed."""
    outcome, reason = outcome_of(open_run, stop, failure)
    summary = summarize_run(open_run, outcome, reason, Stop(StopReason.FAILED) if failure is not None else stop)
    try:
        with open_run.store.begin() as transaction:
            for problem_run in open_run.problem_runs:
                finished, ended = problem_run.committed >= problem_run.iterations, problem_run.stop
                if not problem_run.solved and (finished if ended is None else ended.reason is StopReason.PLATEAU):
                    open_run.store.set_problem_status(problem_run.record.id, "done", tx=transaction)
            open_run.store.finish_run(open_run.run.id, outcome, reason, summary=summary, tx=transaction)
    except (DatabaseUnavailable, RunBusy):
        if failure is None:
            raise  # a failed search stays as it was last written
    return outcome, reason, summary


def outcome_of(open_run: OpenRun, stop: Stop, failure: SearchFailed | None) -> tuple[str, str]:
    """(outcome, reason): the outcome is done, interrupted or failed."""
    if failure is not None:
        return "failed", str(failure)
    reasons = [one.stop.reason for one in open_run.problem_runs if one.stop is not None and one.failed]
    failed, too_long = len(reasons), reasons.count(StopReason.TOO_LONG)
    interrupted = stop.reason is StopReason.INTERRUPTED
    causes = (("the scorer failed on", failed - too_long), ("the prompt does not fit the model for", too_long))
    faults = " and ".join(f"{cause} {count} problem{'s' * (count > 1)}" for cause, count in causes if count)
    why = "interrupted" if interrupted else str(stop) or (faults if failed else "")
    if failed and failed == len(open_run.problem_runs):
        return "failed", why
    return "interrupted" if interrupted else "done", why


def _best_of(problem_run: ProblemRun) -> dict[str, Any]:
    problem, best = problem_run.problem, problem_run.population.best
    metrics = seeded_objectives(problem.objectives, problem.metrics, None)
    measured = as_dict(metrics, None if best is None else problem_run.population.candidate(best[0]))
    shown = {key: measured[key] for key in ("values", "seed", "directions")}
    target = target_value(metrics, problem_run.problem.target)
    direction = "min" if is_lower(metrics) else "max"
    return {
        **{"best": measured["fitness"], "target": target.number, "direction": direction},
        **shown,
    }


def summarize_run(open_run: OpenRun, outcome: str, reason: str, stop: Stop) -> dict[str, Any]:
    """The run's metrics, and a record of each problem."""
    status = open_run.status
    return {
        "run": status.run,
        "outcome": outcome,
        "reason": reason,
        "ended_by": stop.reason.value,
        **({"budget": stop.budget} if stop.budget else {}),
        "policy": open_run.operators[0].policy.version,
        "sandbox": open_run.config.sandbox,
        "problems": [
            {
                "name": problem_run.record.name,
                "iterations": problem_run.committed,
                **_best_of(problem_run),
                "solved_at": problem_run.solved_at,
                "stopped": str(problem_run.stop or ""),
                "improved": problem_run.population.earned,
            }
            for problem_run in open_run.problem_runs
        ],
        **status.metrics(),
        "unscored": None if stop.reason is StopReason.INTERRUPTED else _describe_unscored(open_run),
    }


def _describe_unscored(open_run: OpenRun) -> dict[str, Any] | None:
    """{"reasons": the most frequent ones with counts, "remedy", "reply": the newest one with a text} of a search that
    scored no answer but those it began with; None of any other."""
    status, store, run = open_run.status, open_run.store, open_run.run.id
    failed = sum(count for kind, count in status.errors.items() if kind not in OF_ROLLOUTS)
    if not status.groups or status.answers - status.repeats > failed:
        return None
    found = format_errors(store, run).items()
    reasons = Counter({reason: count for reason, count in found if " answers found: " not in reason})  # unreadable
    reasons.update({failure.error: failure.count for failure in failed_candidates(store, run, _REASONS)})
    remedy = "look at a reply and at the scorer's feedback (evo show); name another model if its replies are poor"
    lacking = {reason: count for reason, kind in REPLIES.items() if (count := status.errors[kind])}
    if status.repeats > failed:
        remedy = remedy_of_repeats(open_run.operators[0].policy) or remedy
    elif not status.answers and lacking:
        _, remedy = LACKING[max(lacking, key=lacking.__getitem__)]
    elif not status.answers and open_run.operators[0].answers > 1:
        remedy = "ask for one answer a reply: --answers 1"
    if status.repeats:
        reasons["a repeat of an answer that the search had"] = status.repeats
    return {"reasons": dict(reasons.most_common(_REASONS)), "remedy": remedy, "reply": status.reply}
