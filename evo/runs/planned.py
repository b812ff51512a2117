"""A run as it is put on record: its settings resolved, its row. A cluster begins with no more than that (`plan_run`);
its nodes load the policies."""

from __future__ import annotations

from collections.abc import Sequence

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
from islands.types import RunRecord
from problems.contract import Problem


def resolve_run(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """A configuration with the settings that its problems decide; warns of budgets that say little, and of records."""
    config = resolve_rollouts(resolve_policy(resolve_settings(config, problems), problems))
    warn_of_records(problems)
    warn_of_budget(min(iterations_for(config, problem) for problem in problems))
    return config


def create_run(
    store: Store, config: RunConfig, problems: Sequence[Problem], name: str | None, command: str
) -> RunRecord:
    """The row of a resolved run."""
    stored = to_stored(config, [problem.name for problem in problems])
    return store.create_run(name, stored, command=command, seed=config.seed, commit=source_commit())


def plan_run(config: RunConfig, parts: Shared, *, db: str, name: str | None, command: str) -> str:
    """Resolve a configuration, which check_new_run has let through, and store it as a run that waits; its name."""
    problems = parts.problems(config)
    config = resolve_run(config, problems)
    with Store.open(db) as store:
        run = create_run(store, config, problems, name, command)
        store.finish_run(run.id, "waiting")
    return run.name
