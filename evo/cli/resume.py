"""`evo resume`: go on with a stored run."""

from __future__ import annotations

from typing import Any

import click

from evo.cli.execute_comparison import conduct
from evo.cli.execute_run import drive
from evo.cli.flags import flag
from evo.cli.options import Manner, db_option, json_option, plain_option, ray_option
from evo.comparison.resume import plan_resume
from evo.config.compare import CompareOptions
from evo.config.run import RunConfig
from evo.runs.resume import relaunch


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
@ray_option
@flag(CompareOptions, "processes", help="of a comparison, as in evo compare")
@plain_option
@json_option
def resume(
    name: str,
    rescore: bool,
    accept_change: bool,
    db: str,
    ray: str | None,
    processes: int | None,
    plain: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Go on with RUN after its last committed group, on the same seed; nothing committed is scored again. RUN may be a
    comparison: all its runs go on, and those begin that have not. A run that evo import made is given a policy. A run
    whose scorer or data was edited is refused without --rescore or --accept-change."""
    changed = {key: value for key, value in settings.items() if value is not None}
    planned = plan_resume(name, db, changed, rescore=rescore, accept_change=accept_change)
    if planned.is_comparison:
        configs = planned.configs()
        manner = Manner(db, plain, as_json, processes, ray=ray)
        order = planned.batches(configs)
        return conduct(lambda: (name, order), list(configs.values()), manner, changes=planned.changes)
    if ray is not None:
        from evo.cli.execute_cluster import drive_on_cluster

        return drive_on_cluster(lambda: name, [], ray, db=db, plain=plain, as_json=as_json, changes=planned.changes)
    return drive(
        lambda: relaunch(name, db=db, changes=planned.changes),
        db=db,
        plain=plain,
        as_json=as_json,
        loading=f"run {name}",
    )
