"""Drives a search or a comparison from Python, whoever prepared it: progress, Ctrl-C, what faults raise."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from evo.api.background import Ended, Job, run_in_background
from evo.api.comparison_progress import ComparisonProgress
from evo.api.comparison_result import ComparisonResult, read_comparison
from evo.api.errors import Interrupted, ScorerWarning
from evo.api.progress import Progress, open_display
from evo.api.result import RunResult, read_run
from evo.cluster import cluster_runner
from evo.comparison.runner import Ended as RunEnded
from evo.comparison.runner import SeedBatch
from evo.comparison.runner_choice import runner_for
from evo.config.run import RunConfig
from evo.errors import SearchFailed
from evo.runs.launch import Launched
from evo.runs.result import Conclusion, run_to_end
from evo.runs.scorer_change import UNCHANGED, Changes
from evo.search.status import SearchStatus
from evo.search.stop import FINISHING
from problems.contract import Problem, ScorerFault
from problems.registry import given

T = TypeVar("T")


def search(
    prepare: Callable[[], Awaitable[Launched]], objects: Sequence[Problem], *, db: str, progress: bool
) -> RunResult:
    """Launch and run one search. objects: problems whose names are addresses meanwhile. Raises as evo.run does."""

    async def work(job: Job) -> Conclusion:
        launched = await prepare()
        try:
            job.name, job.progress = launched.status.run, lambda: progress_of(launched.status)
            job.stop = lambda: launched.search.interrupt(FINISHING)
            return await run_to_end(launched)
        finally:
            await launched.close()

    with given(objects):
        job, ended = run_in_background(work, open_display(progress))
    found = ended.value
    raise_interrupt(job, ended)
    assert found is not None and job.name is not None  # what nobody interrupted has ended
    if found.failure is not None:
        raise found.failure
    tell_faults(found.faults, found.outcome == "failed", job.name)
    return read_run(job.name, db)


def search_comparison(
    begin: Callable[[], tuple[str, Sequence[SeedBatch]]],
    configs: Sequence[RunConfig],
    objects: Sequence[Problem],
    *,
    db: str,
    progress: bool,
    processes: int | None,
    against: str | None = None,
    changes: Changes = UNCHANGED,
    ray: str | None = None,
) -> ComparisonResult:
    """Prepare for the runs' configurations, then begin and search all of them. Raises as evo.compare does."""

    async def work(job: Job) -> list[RunEnded]:
        runner = runner_for(configs, processes) if ray is None else cluster_runner(ray, db)
        try:
            job.stop = lambda: runner.interrupt(FINISHING)
            await runner.prepare(configs)
            if runner.stopping:
                raise asyncio.CancelledError
            job.name, batches = begin()
            counted = job.progress = ComparisonProgress(db, job.name)
            found = await runner.search(db, batches, changes)
            counted.expire()  # the last figures are shown too
            return found
        finally:
            await runner.close()

    with given(objects):
        job, ended = run_in_background(work, open_display(progress))
    raise_interrupt(job, ended)
    assert ended.value is not None and job.name is not None
    failed = [one for one in ended.value if one.outcome == "failed"]
    faults = tuple(dict.fromkeys(fault for one in ended.value for fault in one.faults))
    if any(not one.faults for one in failed):
        one = next(one for one in failed if not one.faults)
        raise SearchFailed(f"{one.run}: {one.reason}; evo.resume({job.name!r}) goes on")
    tell_faults(faults, bool(failed) and len(failed) == len(ended.value), job.name)
    return read_comparison(job.name, db, against)


def progress_of(status: SearchStatus) -> Progress:
    """A search's own counters. Read while another thread writes them."""
    known = sum(one.target is not None for one in status.problem_runs)
    best = [one.best for one in status.problem_runs if one.best is not None]
    parts = [f"{status.solved} of {known} solved" if known else ""]
    if best:
        title = "best" if len(status.problem_runs) == 1 else "mean best"
        parts.append(f"{title} {sum(best) / len(best):.4g}")
    parts.append(f"{status.answers:,} answers")
    return Progress(status.run, status.groups, status.planned, "prompt groups", ", ".join(filter(None, parts)))


def raise_interrupt(job: Job, ended: Ended[T]) -> None:
    """Raise Interrupted where somebody interrupted."""
    if not ended.interrupts:
        return
    if job.name is None:
        raise Interrupted("interrupted before anything was stored")
    raise Interrupted(f"{job.name}: interrupted with everything committed; evo.resume({job.name!r}) goes on", job.name)


def tell_faults(faults: Sequence[str], all_failed: bool, name: str) -> None:
    """Scorers that failed by themselves: raised where nothing else went on, else a warning each."""
    told = [fault.removeprefix("failed: ") for fault in faults]
    if told and all_failed:
        raise ScorerFault(f"{told[0]} (run {name})")
    for fault in told:
        warnings.warn(fault, ScorerWarning, stacklevel=4)
