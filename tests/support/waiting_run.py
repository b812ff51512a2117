"""A run that is stored and waits for its search."""

from __future__ import annotations

from evo.config.run import RunConfig
from evo.runs.start import create_run, resolve_run
from evo.search.resources import Resources
from islands.store import Store


def plan_run(config: RunConfig, db: str) -> None:
    """Store a run that waits for its search, as a comparison stores each of its runs."""
    resources = Resources()
    problems = resources.problems(config)
    with Store.open(db) as store:
        run = create_run(store, resolve_run(config, problems), problems, "run", "test")
        store.finish_run(run.id, "waiting")
