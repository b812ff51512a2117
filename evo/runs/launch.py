"""From a configuration to a stored run whose search is ready to start.

All faults of the input are found here, before a new run exists in the database. A cluster begins with `plan_run`, which
only stores the run; its nodes load the policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evo.checks.record import warn_of_budget, warn_of_records
from evo.config.run import RunConfig
from evo.errors import UnusableScorer
from evo.runs.preflight import check_new_run, check_price
from evo.runs.problem_runs import add_problems, open_learner, open_operators, score_all_seeds
from evo.search.core import SearchCore
from evo.search.defaults import (
    iterations_for,
    resolve_policy,
    resolve_rollouts,
    resolve_settings,
    source_commit,
    to_stored,
)
from evo.search.loop import SearchLoop
from evo.search.operators import Operator, Operators, open_selection
from evo.search.problem_run import ProblemRun
from evo.search.resources import Resources
from evo.search.schedule import Schedule, window_of
from evo.search.status import SearchStatus, describe_machine
from evo.search.stop import FINISHING, Stop, StopReason
from islands.db.store import Store
from islands.types import RunRecord
from problems.contract import Problem, ScorerFault
from problems.scoring import Scorer
from vpo.policies.contract import Policy

ASK_TELL = "ask-tell"
"""The policy on record of a run whose answers come from a caller of `evo.Search`."""


@dataclass
class Launched:
    """A search with the resources that it holds open; `close` releases those that only it uses.

    resources: those of this search only
    shared: those that it shares with other searches; the same as `resources` if it shares none
    """

    search: SearchLoop
    run: RunRecord
    resources: Resources
    shared: Resources

    @property
    def core(self) -> SearchCore:
        return self.search.core

    @property
    def store(self) -> Store:
        return self.core.store

    @property
    def config(self) -> RunConfig:
        return self.core.config

    @property
    def status(self) -> SearchStatus:
        return self.core.status

    @property
    def problem_runs(self) -> Sequence[ProblemRun]:
        return self.core.problem_runs

    @property
    def policy(self) -> Policy:
        """The policy that searches, the first of several."""
        return self.core.operators[0].policy

    @property
    def paused(self) -> bool:
        return self.search.paused

    def pause(self) -> None:
        self.search.pause()

    def resume(self) -> None:
        self.search.resume()

    def interrupt(self, stop: Stop) -> None:
        self.search.interrupt(stop)

    def stop(self) -> None:
        """Finish the iterations in flight, and end."""
        self.interrupt(FINISHING)

    def finish(self, outcome: str, reason: str, summary: dict[str, Any]) -> None:
        """Record how the run ended, and which problems have had all their iterations."""
        with self.store.begin() as transaction:
            for problem_run in self.problem_runs:
                finished = problem_run.committed >= problem_run.iterations
                stop = problem_run.stop
                if not problem_run.solved and (finished if stop is None else stop.reason is StopReason.PLATEAU):
                    self.store.set_problem_status(problem_run.record.id, "done", tx=transaction)
            self.store.finish_run(self.run.id, outcome, reason, summary=summary, tx=transaction)

    async def close(self) -> None:
        await self.resources.close()
        self.store.close()


async def launch(
    config: RunConfig,
    *,
    db: str,
    name: str | None,
    command: str,
    resources: Resources | None = None,
    store: Store | None = None,
) -> Launched:
    """A new run, its seed answers scored and stored. Before anything is written, raises BadInput, or UnusableScorer if
    no problem can score its seed answer.

    resources: those that check_new_run has opened, if it has accepted this configuration; the run owns them from now on
    store: an open store, which is used instead of the database at `db`; the run owns it too
    """
    checked, resources = resources is not None, resources or Resources()
    try:
        # 1) resolve the problems, and the settings that they decide
        if not checked:
            check_new_run(config, resources, db if store is None else None, name)
        problems = resources.problems(config)
        config = resolve_run(config, problems)
        # 2) load the policies
        operators = open_operators(config, problems, resources)
        # 3) score the seeds
        scorer = resources.scorer_for(config, problems)
        seeds = await score_all_seeds(config, problems, scorer)
        faults = [fault for fault in seeds if isinstance(fault, ScorerFault)]
        if len(faults) == len(seeds):
            raise UnusableScorer(str(faults[0]))
        warn_of_run(config, problems)
        # 4) create the run, become its writer, and store the problems
        store = store or Store.open(db)
        run = create_run(store, config, problems, name, command)
        store.lease(run.id)
        problem_runs = await add_problems(store, run, config, problems, seeds, operators, scorer)
        # 5) put the search together
        schedule = Schedule(problem_runs, async_window=config.lag)
        core = open_core(store, run, config, problem_runs, operators, schedule)
        return assemble(core, run, scorer, resources)
    except BaseException:
        await resources.close()
        if store is not None:
            store.close()
        raise


def open_core(
    store: Store,
    run: RunRecord,
    config: RunConfig,
    problem_runs: list[ProblemRun],
    operators: Sequence[Operator],
    schedule: Schedule,
) -> SearchCore:
    """The search of these problems, without its sampler and learner."""
    return SearchCore(
        store,
        run.id,
        config,
        Operators(operators, open_selection(config, operators)),
        SearchStatus(run=run.name, policy=config.policy, problem_runs=problem_runs, machines=[describe_machine()]),
        window_of(config, operators[0].policy, [one.population.config.islands for one in problem_runs]),
        schedule,
    )


def assemble(
    core: SearchCore,
    run: RunRecord,
    scorer: Scorer,
    resources: Resources,
    *,
    shared: Resources | None = None,
) -> Launched:
    """The loop around a core, with the learner of its configuration."""
    search = SearchLoop(core, open_learner(core, run, scorer), scorer)
    return Launched(search, run, resources, shared or resources)


def resolve_run(config: RunConfig, problems: Sequence[Problem]) -> RunConfig:
    """The configuration with the settings that its problems decide."""
    config = resolve_rollouts(resolve_settings(resolve_policy(config, problems), problems))
    check_price(config.max_cost, [config.policy])
    return config


def warn_of_run(config: RunConfig, problems: Sequence[Problem]) -> None:
    """Warn of a budget that is too small, and of faults that `evo check` found."""
    warn_of_records(problems)
    if config.policy != ASK_TELL:
        warn_of_budget(min(iterations_for(config, problem) for problem in problems))


def create_run(
    store: Store, config: RunConfig, problems: Sequence[Problem], name: str | None, command: str
) -> RunRecord:
    """Store a resolved run."""
    stored = to_stored(config, [problem.name for problem in problems])
    return store.create_run(name, stored, command=command, seed=config.seed, commit=source_commit())


def plan_run(config: RunConfig, resources: Resources, *, db: str, name: str | None, command: str) -> str:
    """Resolve a configuration that check_new_run has accepted, and store it as a waiting run. Returns its name."""
    problems = resources.problems(config)
    config = resolve_run(config, problems)
    warn_of_run(config, problems)
    with Store.open(db) as store:
        run = create_run(store, config, problems, name, command)
        store.finish_run(run.id, "waiting")
    return run.name
