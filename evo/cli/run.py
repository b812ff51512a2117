"""`evo run` and `evo resume`: search problems with a policy, and continue a stored search.

The modules that run a search are imported after the input has been checked, so that bad input is reported at once.
"""

from __future__ import annotations

from typing import Any

import click

from evo.cli.flags import SEARCH_SECTIONS, GroupedCommand, collect_given, flag, search_flags
from evo.cli.live import search_driver
from evo.cli.options import (
    OutputOptions,
    check_processes,
    config_option,
    db_option,
    format_arguments,
    json_option,
    open_console,
    plain_option,
    ray_option,
    read_command,
)
from evo.config.compare import CompareOptions
from evo.config.run import RunConfig, load_config
from evo.errors import BadInput
from evo.runs.preflight import check_new_run
from evo.search.resources import Resources


@click.command(
    "run",
    cls=GroupedCommand,
    sections={
        "Basic": (
            *("policy", "iterations", "limit", "answers", "rollouts", "seed"),
            *("config_path", "name", "db", "plain"),
        ),
        **SEARCH_SECTIONS,
        "Training during the search": ("train__method", *SEARCH_SECTIONS["Training during the search"]),
        "Execution and output": ("sandbox", "report_to", "as_json"),
    },
)
@click.argument("problems", nargs=-1)
@search_flags
@config_option
@click.option("--name", help="The run's name; by default a readable one is made up.")
@db_option
@plain_option
@json_option
def run_command(
    problems: tuple[str, ...],
    config_path: str | None,
    name: str | None,
    db: str,
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
    evo run my_scorer.py --policy scripted:mutate        no model, no network: random edits of good answers
    """
    config, resources = load_config(config_path, {**collect_given(options), "problems": problems}), Resources()
    check_new_run(config, resources, db, name)
    from evo.api.drive import new_search  # slow to import: the database's library
    from evo.cli.outcome import print_outcome

    console, output = open_console(stderr=as_json), OutputOptions(db, plain, as_json)
    driver = search_driver(console, output, [config])
    outcome = driver.drive(new_search(config, driver, db, name, read_command(), resources))
    return print_outcome(outcome, output, console)


@click.command("resume")
@click.argument("name", metavar="RUN")
@click.option("--policy", help="The run's policy with other options; the run records the change.")
@flag(RunConfig, "iterations", help="The new total of iterations per problem.")
@flag(RunConfig, "max_answers", help="The new budget of answers, including those already spent.")
@flag(RunConfig, "max_total_tokens", help="The new budget of tokens, including those already spent.")
@flag(RunConfig, "max_cost", help="The new budget of cost, including what is already spent.")
@flag(RunConfig, "max_seconds", help="The new budget of seconds, including those already searched.")
@flag(RunConfig, "patience", help="Stop a problem after this many iterations in a row without a better best answer.")
@flag(RunConfig, "report_to", metavar="TRACKER")
@click.option("--accept-change", is_flag=True, help="Continue although the scorer was edited; old scores stay.")
@db_option
@ray_option
@flag(CompareOptions, "processes", help="Worker processes of a comparison, as in evo compare.")
@plain_option
@json_option
def resume_command(
    name: str,
    accept_change: bool,
    db: str,
    ray: str | None,
    processes: int | None,
    plain: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Continue RUN after its last committed iteration, with the same seed; nothing committed is scored again. If RUN is
    a comparison, all its runs continue, and those that have not begun begin. A run whose scorer was edited
    continues with --accept-change only."""
    from evo.api.drive import resumed_search
    from evo.cli.outcome import print_outcome
    from evo.runs.resume import plan_resume

    plan = plan_resume(name, db, collect_given(settings), accept_change=accept_change)
    console, output = open_console(stderr=as_json), OutputOptions(db, plain, as_json)
    if not as_json and plan.is_done():
        more = f"evo resume {format_arguments(name, db)} --iterations N"
        console.print(
            f"{name} is done: there is nothing to do. To search further: {more}", soft_wrap=True, markup=False
        )
        return 0
    check_processes(processes, ray)
    if ray is not None and not plan.is_comparison:
        raise BadInput(f"--ray takes whole searches of a comparison, and {name} is one run: leave it out")
    driver = search_driver(console, output, list(plan.configs().values()))
    outcome = driver.drive(resumed_search(plan, driver, db, processes=processes, ray=ray))
    return print_outcome(outcome, output, console)
