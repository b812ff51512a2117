"""A run that is put on record before anybody searches it: what a cluster begins with; its nodes load the policies."""

from __future__ import annotations

from evo.checks.record import warn_of_budget, warn_of_records
from evo.config.run import RunConfig
from evo.search.defaults import (
    iterations_for,
    resolve_policy,
    resolve_rollouts,
    resolve_settings,
    source_commit,
    to_stored,
)
from evo.search.resources import Shared
from islands.db.store import Store


def plan_run(config: RunConfig, parts: Shared, *, db: str, name: str | None, command: str) -> str:
    """Resolve a configuration, which check_new_run has let through, and store it as a run that waits; its name."""
    problems = parts.problems(config)
    config = resolve_rollouts(resolve_policy(resolve_settings(config, problems), problems))
    warn_of_records(problems)
    warn_of_budget(min(iterations_for(config, problem) for problem in problems))
    with Store.open(db) as store:
        stored = to_stored(config, [problem.name for problem in problems])
        run = store.create_run(name, stored, command=command, seed=config.seed, commit=source_commit())
        store.finish_run(run.id, "waiting")
    return run.name
