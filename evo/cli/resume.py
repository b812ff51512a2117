"""`evo resume`: go on with a stored run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evo.cli.options import Manner, db_option, json_option, plain_option

if TYPE_CHECKING:
    from islands.types import RunRecord

ASKED = {"policy", "rollouts", "answers"}


@click.command()
@click.argument("name", metavar="RUN")
@click.option("--policy", help="who goes on with a run that evo import made; any policy of evo run")
@click.option("--rollouts", type=click.IntRange(1, 1024), help="G, beside --policy")
@click.option("--answers", type=click.IntRange(1, 32), help="m, beside --policy")
@click.option("--iterations", type=click.IntRange(1), help="a new total per problem")
@click.option("--max-answers", type=click.IntRange(1), help="a new budget of answers, those already spent included")
@click.option("--max-tokens", type=click.IntRange(1), help="a new budget of tokens, those already spent included")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="a new budget of cost, all of it included")
@click.option(
    "--max-seconds",
    type=click.FloatRange(0, min_open=True),
    help="a new budget of seconds, those searched already included",
)
@db_option
@click.option("--processes", type=click.IntRange(1, 64), help="of a comparison, as in evo compare")
@plain_option
@json_option
def resume(name: str, db: str, processes: int | None, plain: bool, as_json: bool, **budgets: Any) -> int:
    """Go on with RUN after its last committed group, on the same seed; nothing committed is scored again. RUN may be a
    comparison: all its runs go on, and those begin that have not. A run that evo import made is given a policy."""
    from evo.cli.execute_run import drive
    from evo.errors import BadInput
    from evo.runs.budgets import check_budgets
    from evo.runs.launch import relaunch
    from islands.db.comparisons import runs_named
    from islands.db.store import Store
    from islands.interop.origin import source_of
    from islands.queries.progress import run_progress

    changed = {key: value for key, value in budgets.items() if value is not None}
    with Store.open(db, read_only=True) as store:
        runs = runs_named(store, name)
        if changed.keys() & ASKED and source_of(store, runs[0].id) is None:
            raise BadInput(
                f"{name} keeps its policy, rollouts and answers; only a run that evo import made is given others"
            )
        for run in runs:
            check_budgets(run, run_progress(store, run.id), changed)
    if runs[0].comparison == name:
        return _resume_comparison(name, runs, changed, Manner(db, plain, as_json, processes))
    return drive(lambda: relaunch(name, db=db, overrides=changed), db=db, plain=plain, as_json=as_json)


def _resume_comparison(name: str, runs: list[RunRecord], changed: dict[str, Any], manner: Manner) -> int:
    from evo.cli.execute_comparison import conduct
    from evo.comparison.plan import waves
    from evo.config.parse import parse
    from evo.config.run import RunConfig, stored_run

    unfinished = [run for run in runs if run.status != "done" or changed]
    configs = {
        run.name: parse(RunConfig, {**stored_run(run.config), **changed}, f"run {run.name}") for run in unfinished
    }
    order = waves([(run.name, run.seed, configs[run.name]) for run in unfinished])
    return conduct(lambda: (name, order), list(configs.values()), manner, overrides=changed)
