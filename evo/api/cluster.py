"""`ray=`: drives a search on a cluster from Python, as evo.api.search does here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evo.api.background import Job, run_in_background
from evo.api.comparison_progress import ComparisonProgress
from evo.api.progress import open_display
from evo.api.result import RunResult, read_run
from evo.api.search import raise_interrupt, tell_faults
from evo.cluster import runner_of_a_run
from evo.comparison.runner import Ended
from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed
from evo.runs.scorer_change import UNCHANGED, Changes
from evo.search.stop import FINISHING
from problems.contract import Problem


def check_by_name(objects: Sequence[Problem]) -> None:
    """BadInput where a problem is known to this process alone."""
    if objects:
        raise BadInput(
            f"{objects[0].name} is an object of this process: with ray=, name problems that every machine can open, a "
            "set, a scorer file or an OpenEvolve directory"
        )


def search_on_cluster(
    begin: Callable[[], str],
    configs: Sequence[RunConfig],
    ray: str,
    *,
    db: str,
    progress: bool,
    changes: Changes = UNCHANGED,
) -> RunResult:
    """Search one run. begin: stores it, its name; configs: of a new one. Raises as evo.run does."""
    runner = runner_of_a_run(ray, db, configs)

    async def work(job: Job) -> Ended | None:
        try:
            job.stop = lambda: runner.interrupt(FINISHING)
            await runner.prepare(configs)
            if runner.stopping:
                return None
            name = job.name = begin()
            counted = job.progress = ComparisonProgress(db, name, alone=True)
            found = await runner.search_run(name, changes)
            counted.expire()
            return found
        finally:
            await runner.close()

    job, ended = run_in_background(work, open_display(progress))
    raise_interrupt(job, ended)
    found = ended.value
    assert found is not None and job.name is not None  # what nobody interrupted has ended
    if found.outcome == "failed" and not found.faults:
        raise SearchFailed(f"{job.name}: {found.reason}")
    tell_faults(found.faults, found.outcome == "failed", job.name)
    return read_run(job.name, db)
