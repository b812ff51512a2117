"""A shard of a stored run, ready to go on: the part of its problems that one machine searches.

The run's problems and seeds are in the database already (`relaunch` puts them there); what a shard writes has the same
sequences and the same contents as it would have in a search of the whole run.
"""

from __future__ import annotations

from evo.config.parse import parse
from evo.config.run import RunConfig, complete_run
from evo.errors import BadInput
from evo.runs.launch import Launched, assemble
from evo.runs.problem_runs import check_together, open_problem_run, recall_groups, restore_problem_run
from evo.runs.resume import check_unchanged
from evo.runs.scorer_change import OnScorerChange, check_scorers
from evo.search.active_time import ended_periods
from evo.search.defaults import iterations_for, population_config
from evo.search.resources import Shared
from evo.search.turns import PlacedTurns, Shard, couples_its_problems
from islands.db.shards import read_shards, take_shard, write_shard
from islands.db.store import Store
from islands.queries.progress import last_sequences, run_progress
from islands.types import RunRecord


def check_divisible(config: RunConfig, run: str) -> None:
    """BadInput where a run cannot be searched in shards."""
    reason = couples_its_problems(config)
    if reason is not None:
        raise BadInput(f"{run} cannot be dealt out to several machines: {reason}")


async def relaunch_shard(name: str, number: int, *, db: str, node: str = "", shared: Shared | None = None) -> Launched:
    """Shard `number` of a stored run, taken from whoever had it. node: where this is, for those who watch

    Raises BadInput where the run cannot be dealt out, or was searched in another order than shards keep.
    """
    own = Shared()
    parts = shared or own
    store = Store.open(db, must_exist=True)
    try:
        run = store.run(name)
        shards = read_shards(store, run.id)
        config = parse(RunConfig, complete_run(run.config), f"run {name}")
        check_divisible(config, f"run {name}")
        problems = parts.problems(config)
        operators = parts.operators(config, problems)
        check_together(config, problems, operators)
        reflecting = parts.reflecting(config, problems)
        scorer = parts.scorer_for(config, problems)
        take_shard(store, run.id, number, node)
        records = store.problems(run.id)
        check_unchanged(run, problems, records)
        part = Shard(number, shards[number].count, tuple(iterations_for(config, problem) for problem in problems))
        mine = [(problem, record) for problem, record in zip(problems, records, strict=True) if part.owns(record.index)]
        await check_scorers(
            store, run, config, [p for p, _ in mine], [r for _, r in mine], scorer, OnScorerChange.REFUSE
        )
        progress = run_progress(store, run.id)
        _check_places(store, run, part)
        problem_runs = [open_problem_run(store, record, config, one, operators, scorer) for one, record in mine]
        for one in problem_runs:
            await restore_problem_run(one, progress.problems[one.record.id], store, config, scorer)
        breadths = [population_config(config, problem).islands for problem in problems]
        launched = assemble(
            store, run, problem_runs, own, operators, scorer, config, reflecting, shard=part, breadths=breadths
        )
        launched.parts, launched.node = parts, node
        summary = dict(shards[number].summary)
        if summary:  # an earlier writer that was killed left a period without an end
            summary["active"] = ended_periods(summary, run.created)
        search = launched.search
        search.turns = PlacedTurns(problem_runs, part, config.lag)
        search.write_metrics = lambda metrics, tx: write_shard(run.id, number, tx, summary=metrics)
        groups = sum(progress.problems[one.record.id].groups for one in problem_runs)
        launched.status.carry(
            summary, run.created, groups, int(summary.get("answers", 0)), int(summary.get("tokens", 0))
        )
        recall_groups(search, run.id)
        return launched
    except BaseException:
        await own.close()
        store.close()
        raise


def _check_places(store: Store, run: RunRecord, part: Shard) -> None:
    """BadInput where stored groups are not where the run's order has them, as after a scorer's fault, which gave a
    problem's turns to the others."""
    for index, iteration, sequence in last_sequences(store, run.id):
        if part.place(index, iteration) != sequence:
            raise BadInput(
                f"run {run.name} was searched in another order than shards keep; go on with it on one machine, by "
                f"evo resume {run.name} without --ray"
            )
