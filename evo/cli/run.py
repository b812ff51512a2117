"""`evo run` and `evo resume`: search problems with a policy, and continue a stored search.

The modules that run a search are imported after the input has been checked, so that bad input is reported at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from evo.cli.flags import BUDGET, SAMPLING, SEARCH, TRAINING, GroupedCommand, collect_given, flag, search_flags
from evo.cli.live import foreground, name_configs, search_on_screen, silent_if, wants_screen
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
from evo.config.run import RunConfig, load_config, name_in_trackers
from evo.errors import BadInput
from evo.runs.preflight import check_new_run
from evo.search.resources import Resources


@click.command(
    cls=GroupedCommand,
    sections={
        "Basic": (
            *("policy", "iterations", "limit", "answers", "rollouts", "seed"),
            *("config_path", "name", "db", "plain"),
        ),
        "Budget": BUDGET,
        "Search": SEARCH,
        "Policy": SAMPLING,
        "Training during the search": ("train__method", *TRAINING),
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
def run(
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
    config = name_in_trackers(load_config(config_path, {**collect_given(options), "problems": problems}), name)
    command, resources, output = read_command(), Resources(), OutputOptions(db, plain, as_json)
    on_screen = wants_screen(output)
    with silent_if(on_screen):
        check_new_run(config, resources, db, name)
    if on_screen:
        return search_on_screen(name, output, name_configs([config]))
    from evo.api.drive import run_search  # slow to import: the database's library and the screen
    from evo.cli.outcome import print_outcome
    from evo.runs.start import launch

    console = open_console(stderr=as_json)
    prepare = partial(launch, config, db=db, name=name, command=command, resources=resources)
    driver = foreground(console).track(config.report_to, config.tracked_as)
    return print_outcome(run_search(prepare, driver, db), output, console)


@click.command()
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
def resume(
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
    from evo.api.drive import resume_stored
    from evo.cli.outcome import print_outcome
    from evo.runs.resume import plan_resume

    changed = collect_given(settings)
    plan = plan_resume(name, db, changed, accept_change=accept_change)
    output = OutputOptions(db, plain, as_json)
    if not as_json and plan.is_done():
        console = open_console(markup=False)
        more = f"evo resume {format_arguments(name, db)} --iterations N"
        console.print(f"{name} is done: there is nothing to do. To search further: {more}", soft_wrap=True)
        return 0
    check_processes(processes, ray)
    if ray is not None and not plan.is_comparison:
        raise BadInput(f"--ray takes whole searches of a comparison, and {name} is one run: leave it out")
    if wants_screen(output):
        loading = name_configs(list(plan.configs().values())) if plan.is_comparison else f"run {name}"
        return search_on_screen(name, output, loading)
    console = open_console(stderr=as_json)
    return print_outcome(resume_stored(plan, foreground(console), db, processes=processes, ray=ray), output, console)
