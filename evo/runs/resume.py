"""From a stored run to a search that is ready to go on after its last committed group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evo.config.parse import parse
from evo.config.run import RunConfig, complete_run
from evo.errors import BadInput
from evo.runs.budgets import check_budgets
from evo.runs.launch import Launched, assemble
from evo.runs.problem_runs import (
    add_problems,
    check_together,
    open_problem_run,
    recall_groups,
    restore_problem_run,
)
from evo.runs.scorer_change import UNCHANGED, Changes, OnScorerChange, check_scorers, recount_errors
from evo.search.active_time import ended_periods
from evo.search.defaults import to_stored
from evo.search.resources import Shared
from evo.search.turns import CountedTurns
from islands.db.shards import read_shards, revoke_shards
from islands.db.store import Store
from islands.interop.importing import POLICY as IMPORTED
from islands.queries.progress import group_count, run_progress
from islands.types import ProblemRecord, RunRecord
from problems.contract import Problem


async def relaunch(
    name: str,
    *,
    db: str,
    changes: Changes = UNCHANGED,
    shared: Shared | None = None,
    take_over: bool = False,
    dealt: bool = False,
) -> Launched:
    """A stored run, ready to go on, or to begin where it was only planned. What is `shared` with other searches is
    theirs to close; a policy that learns is shared with none. Raises BadInput, with the run as it was.

    take_over: from a writer that seems to live, but is known to be lost
    dealt: its shards go on after this, which puts their problems and settings in place
    """
    own = Shared()
    parts = shared or own
    store = Store.open(db, must_exist=True)
    try:
        # 1) read the run, and what it has spent
        run = store.run(name)
        progress = run_progress(store, run.id)
        check_budgets(run, progress, changes.settings)
        config = parse(RunConfig, {**complete_run(run.config), **changes.settings}, f"run {name}")
        if config.policy == IMPORTED:
            raise BadInput(f"run {name} was imported; say who goes on with it: evo resume {name} --policy POLICY")
        # 2) resolve the problems, load the policies
        problems = parts.problems(config)
        operators = (own if config.train else parts).operators(config, problems)
        check_together(config, problems, operators)
        reflecting = (own if config.train else parts).reflecting(config, problems)
        scorer = parts.scorer_for(config, problems)
        # 3) become its writer; its problems must be what they were, and so must what scores them
        store.lease(run.id, take_over)
        if not dealt:
            check_whole(store, run)
        records = store.problems(run.id)
        if records:
            check_unchanged(run, problems, records)
            await check_scorers(store, run, config, problems, records, scorer, changes.on_scorer_change)
            if changes.on_scorer_change is OnScorerChange.RESCORE and run.summary:
                run = replace(run, summary={**run.summary, "errors": recount_errors(store, run)})
            records, progress = store.problems(run.id), run_progress(store, run.id)
            problem_runs = [
                open_problem_run(store, record, config, problem, operators, scorer)
                for problem, record in zip(problems, records, strict=True)
            ]
            for one in problem_runs:
                await restore_problem_run(one, progress.problems[one.record.id], store, config, scorer)
        else:  # planned, or killed between its creation and its seeds
            problem_runs = await add_problems(store, run, config, problems, operators, scorer)
        # 4) put on record that it goes on
        if changes.settings:
            store.set_config(run.id, to_stored(config, config.problems))
        # an earlier process that was killed left a period without an end, and what follows it is idle time
        closed = {"active": ended_periods(run.summary, run.created)} if run.summary else {}
        store.finish_run(run.id, "running", summary={**run.summary, **closed})
        # 5) bring the search to where it was
        launched = assemble(store, run, problem_runs, own, operators, scorer, config, reflecting)
        launched.parts = parts
        launched.search.turns = CountedTurns(problem_runs, progress.next_sequence, config.lag)
        launched.status.carry(run.summary, run.created, progress.groups, progress.answers, progress.tokens)
        await launched.search.learner.restore()
        recall_groups(launched.search, run.id)
        return launched
    except BaseException:
        await own.close()
        store.close()
        raise


def check_whole(store: Store, run: RunRecord) -> None:
    """Take a run's shards from whoever still writes to them. BadInput where some are ahead of others: the run's order
    is then theirs to go on with."""
    if not read_shards(store, run.id):
        return
    revoke_shards(store, run.id)
    groups, last = group_count(store, run.id)
    if groups != last + 1:
        raise BadInput(
            f"run {run.name} is searched in shards, some of which are ahead of others; go on with it by "
            f"evo resume {run.name} --ray local"
        )


def check_unchanged(run: RunRecord, problems: Sequence[Problem], records: Sequence[ProblemRecord]) -> None:
    """BadInput where what the stored addresses name today is not what the run searched."""
    now, then = [problem.name for problem in problems], [record.name for record in records]
    if now != then:
        changed = next(
            (f"{b} is now {a}" for a, b in zip(now, then, strict=False) if a != b), f"{len(then)} became {len(now)}"
        )
        raise BadInput(f"run {run.name}: its problems are not what they were ({changed}); start a new run")
    for problem, record in zip(problems, records, strict=True):
        if tuple(problem.objectives) != tuple(record.objectives):
            raise BadInput(
                f"run {run.name}: {problem.name} now has the objectives {', '.join(problem.objectives)}, "
                f"it was searched with {', '.join(record.objectives)}; declare them as `objectives` or start a new run"
            )
