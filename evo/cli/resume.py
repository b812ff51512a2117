"""`evo resume`: go on with a stored run."""

from __future__ import annotations

from typing import Any

import click

from evo.api.drive import SearchOutcome, run_comparison, run_search, run_search_on_cluster
from evo.cli.flags import flag
from evo.cli.live import foreground, name_configs
from evo.cli.options import OutputOptions, check_processes, db_option, json_option, plain_option, ray_option
from evo.cli.outcome import report_comparison, report_search
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
    plan = plan_resume(name, db, changed, rescore=rescore, accept_change=accept_change)
    output = OutputOptions(db, plain, as_json)
    if plan.is_comparison:
        configs = plan.configs()
        check_processes(processes, ray)
        console, driver = foreground(output, name_configs(list(configs.values())))
        batches = plan.batches(configs)
        compared = run_comparison(
            lambda: (name, batches),
            list(configs.values()),
            driver,
            db,
            processes=processes,
            changes=plan.changes,
            ray=ray,
        )
        return report_comparison(compared, output, console)
    console, driver = foreground(output, f"run {name}")
    outcome: SearchOutcome | None
    if ray is None:
        outcome = run_search(lambda: relaunch(name, db=db, changes=plan.changes), driver, db)
    else:
        outcome = run_search_on_cluster(lambda: name, [], ray, driver, db, plan.changes)
    return report_search(outcome, output, console)
