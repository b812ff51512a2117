"""`evo run`: search problems with a policy."""

from __future__ import annotations

from typing import Any

import click

from evo.cli.flags import collect_given
from evo.cli.options import OutputOptions, command_line, db_option, json_option, plain_option, ray_option
from evo.cli.search_flags import search_flags
from evo.config.run import load_config
from evo.runs.preflight import check_new_run
from evo.search.resources import Resources


@click.command()
@click.argument("problems", nargs=-1)
@search_flags
@click.option("--config", "config_path", metavar="FILE.yaml", help="the same keys as YAML; flags override it")
@click.option("--name", help="of the run; default: a readable one is made up")
@db_option
@ray_option
@plain_option
@json_option
def run(
    problems: tuple[str, ...],
    config_path: str | None,
    name: str | None,
    db: str,
    ray: str | None,
    plain: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Search PROBLEMS: sets (maze:hard), members (maze:test/17), JSONL files (programs:FILE.jsonl), a scorer file, or
    an OpenEvolve directory.

    \b
    evo run maze:hard --limit 10 --iterations 60
    evo run programs:easy --policy Qwen/Qwen2.5-Coder-0.5B-Instruct --rollouts 4 --answers 1
    evo run my_scorer.py --policy DIR --until-solved
    evo run my_scorer.py --policy scripted:mutate        no model, no network: random changes of what scored well
    """
    config = load_config(config_path, {**collect_given(options), "problems": problems})
    command, resources = command_line(), Resources()
    check_new_run(config, resources, db, name)
    from evo.api.drive import (  # the database's library, and what draws the screen
        SearchOutcome,
        run_search,
        run_search_on_cluster,
    )
    from evo.cli.live import foreground
    from evo.cli.outcome import report_search
    from evo.runs.launch import launch, plan_run

    output = OutputOptions(db, plain, as_json)
    console, driver = foreground(output, f"{config.policy} for {' '.join(config.problems)}")
    outcome: SearchOutcome | None
    if ray is None:
        outcome = run_search(lambda: launch(config, db=db, name=name, command=command, resources=resources), driver, db)
    else:
        outcome = run_search_on_cluster(
            lambda: plan_run(config, resources, db=db, name=name, command=command), [config], ray, driver, db
        )
    return report_search(outcome, output, console)
