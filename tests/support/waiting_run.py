"""A run that is stored and waits for its search."""

from __future__ import annotations

from evo.config.run import RunConfig
from evo.runs.start import resolve_run
from evo.search.resources import Resources, to_stored
from islands.store import Store


def plan_run(config: RunConfig, db: str) -> None:
    """Store a run that waits for its search, as a comparison stores each of its runs."""
    resources = Resources()
    problems = resources.problems(config)
    with Store.open(db) as store:
        resolved = resolve_run(config, problems)
        stored = to_stored(resolved, [problem.name for problem in problems])
        run = store.create_run("run", stored, command="test", seed=resolved.seed, commit="")
        store.finish_run(run.id, "waiting")
