"""`evo run`, `evo resume` and `evo compare`: search problems with a policy or several, and continue a stored search.

The modules that run a search are imported after the input has been checked, so that bad input is reported at once.
"""

from __future__ import annotations

from typing import Any

import click

from evo.cli.flags import SEARCH_SECTIONS, GroupedCommand, collect_given, flag, search_flags, shared_search_flags
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
from evo.config.compare import CompareOptions, parse_arm, read_comparison
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


@click.command(
    "compare",
    cls=GroupedCommand,
    sections={
        "Basic": (
            *("arms", "iterations", "seeds", "limit", "baselines", "seed"),
            *("config_path", "name", "db", "plain"),
        ),
        "Comparison": ("against", "answers", "answers_per_iteration", "processes"),
        **SEARCH_SECTIONS,
        "Execution and output": ("sandbox", "ray", "report_to", "as_json"),
    },
)
@click.argument("problems", nargs=-1, metavar="SET...")
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="NAME=POLICY",
    help="A policy to compare, or several with commas as operators of one search; then settings of this arm, as in "
    "vpo=DIR,answers=3,temperature=0.8.",
)
@flag(CompareOptions, "seeds")
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME[=ARM]",
    help="A baseline: best-of-n, hill or scs, of the first arm or of ARM; classic for mazes; tuned-start; several "
    "with commas; or `none`.  [default: best-of-n]",
)
@flag(CompareOptions, "answers_per_iteration")
@flag(CompareOptions, "against", metavar="ARM")
@flag(CompareOptions, "processes")
@shared_search_flags
@config_option
@click.option("--name", help="The comparison's name; by default a readable one is made up.")
@db_option
@ray_option
@plain_option
@json_option
def compare_command(
    problems: tuple[str, ...],
    arms: tuple[str, ...],
    baselines: tuple[str, ...],
    config_path: str | None,
    name: str | None,
    db: str,
    ray: str | None,
    plain: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Let several policies search the problems of SET under one budget of answers, with the same islands, prompts and
    seeds. The result: solve rates with intervals, paired differences, and a verdict.

    A rollout gives as many answers as its policy was trained to give; a chain of three counts as three. Baselines are
    further arms: best-of-n samples an arm's policy without a parent, hill shows it only the best answer so far, scs
    shows it random successful answers, and classic re-routes mazes without a model. Every run is stored in the
    database: evo resume continues a killed comparison, and evo watch shows it from anywhere.

    \b
    evo compare maze:hard --arm base=embedded:base --arm grpo=embedded:grpo --arm vpo=embedded:vpo --iterations 200
    evo compare maze:hard --arm vpo=embedded:vpo --baseline best-of-n --baseline hill --baseline scs --baseline classic
    evo compare programs:medium --arm one=DIR,answers=1 --arm chain=DIR,answers=3 --seeds 3
    """
    from evo.api.drive import new_comparison, plan_comparison
    from evo.cli.outcome import print_outcome
    from evo.comparison.summary import describe_detectable  # statistics: help does without

    named = dict[str, Any]()
    for text in arms:
        arm, values = parse_arm(text)
        if arm in named:
            raise BadInput(
                f"--arm {text}: there are two arms called {arm}; name them, as in --arm other={values['policy']}"
            )
        named[arm] = values
    added = [] if baselines == ("none",) else ",".join(baselines).split(",") if baselines else None
    given = {**collect_given(options), "problems": problems, "arms": named or None, "baselines": added}
    config = read_comparison(config_path, given)
    check_processes(config.processes, ray)
    plan = plan_comparison(config, db, name, read_command())
    configs, seeds = plan.configs, len({one.seed for one in plan.configs})
    learn = any(one.train for one in configs)
    detectable = describe_detectable(len(configs[0].problems), seeds, len(configs) // seeds, learn)
    console, output = open_console(stderr=as_json), OutputOptions(db, plain, as_json)
    driver = search_driver(console, output, configs, against=config.against, first=detectable)
    outcome = driver.drive(new_comparison(plan, driver, db, processes=config.processes, ray=ray))
    return print_outcome(outcome, output, console, against=config.against)
