"""`evo resume`: go on with a stored run."""

from __future__ import annotations

from typing import Any

import click

from evo.cli.execute_comparison import conduct
from evo.cli.execute_run import drive
from evo.cli.flags import flag
from evo.cli.options import Manner, db_option, json_option, plain_option
from evo.comparison.plan import seed_batches
from evo.config.compare import CompareOptions
from evo.config.parse import parse
from evo.config.run import RunConfig, complete_run
from evo.errors import BadInput
from evo.runs.budgets import check_budgets
from evo.runs.resume import relaunch
from evo.runs.scorer_change import Changes, OnScorerChange
from islands.db.comparisons import runs_named
from islands.db.store import Store
from islands.interop.origin import source_of
from islands.queries.progress import run_progress
from islands.types import RunRecord

ASKED = {"policy", "rollouts", "answers"}


@click.command()
@click.argument("name", metavar="RUN")
@click.option("--policy", help="who goes on with a run that evo import made; any policy of evo run")
@flag(RunConfig, "rollouts", help="G, beside --policy")
@flag(RunConfig, "answers", help="m, beside --policy")
@flag(RunConfig, "iterations", help="a new total per problem")
@flag(RunConfig, "max_answers", help="a new budget of answers, those already spent included")
@flag(RunConfig, "max_tokens", help="a new budget of tokens, those already spent included")
@flag(RunConfig, "max_cost", help="a new budget of cost, all of it included")
@flag(RunConfig, "max_seconds", help="a new budget of seconds, those searched already included")
@click.option(
    "--rescore", is_flag=True, help="score all that is stored anew, as after an edit of the scorer or its data"
)
@click.option("--accept-change", is_flag=True, help="go on where the scorer was edited: old scores stay as they are")
@db_option
@flag(CompareOptions, "processes", help="of a comparison, as in evo compare")
@plain_option
@json_option
def resume(
    name: str,
    rescore: bool,
    accept_change: bool,
    db: str,
    processes: int | None,
    plain: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Go on with RUN after its last committed group, on the same seed; nothing committed is scored again. RUN may be a
    comparison: all its runs go on, and those begin that have not. A run that evo import made is given a policy. A run
    whose scorer or data was edited is refused without --rescore or --accept-change."""
    if rescore and accept_change:
        raise BadInput("--rescore and --accept-change exclude each other")
    on_change = OnScorerChange.RESCORE if rescore else OnScorerChange.ACCEPT if accept_change else OnScorerChange.REFUSE
    changed = {key: value for key, value in settings.items() if value is not None}
    changes = Changes(changed, on_change)
    with Store.open(db, must_exist=True) as store:  # not for reading alone: a resume upgrades an older schema
        runs = runs_named(store, name)
        if changed.keys() & ASKED and source_of(store, runs[0].id) is None:
            raise BadInput(
                f"{name} keeps its policy, rollouts and answers; only a run that evo import made is given others"
            )
        for run in runs:
            check_budgets(run, run_progress(store, run.id), changed)
    if runs[0].comparison == name:
        return _resume_comparison(name, runs, changes, Manner(db, plain, as_json, processes))
    return drive(
        lambda: relaunch(name, db=db, changes=changes), db=db, plain=plain, as_json=as_json, loading=f"run {name}"
    )


def _resume_comparison(name: str, runs: list[RunRecord], changes: Changes, manner: Manner) -> int:
    unfinished = [run for run in runs if run.status != "done" or changes]
    configs = {
        run.name: parse(RunConfig, {**complete_run(run.config), **changes.settings}, f"run {run.name}")
        for run in unfinished
    }
    order = seed_batches([(run.name, run.seed, configs[run.name]) for run in unfinished])
    return conduct(lambda: (name, order), list(configs.values()), manner, changes=changes)
