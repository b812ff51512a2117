"""`evo compare`: several policies search the same problems under the same budget."""

from __future__ import annotations

from typing import Any

import click

from evo.api.drive import new_comparison, plan_comparison
from evo.cli.flags import SEARCH_SECTIONS, GroupedCommand, collect_given, flag, shared_search_flags
from evo.cli.live import search_driver
from evo.cli.options import (
    OutputOptions,
    check_processes,
    config_option,
    db_option,
    json_option,
    open_console,
    plain_option,
    ray_option,
    read_command,
)
from evo.cli.outcome import print_outcome
from evo.config.compare import CompareOptions, parse_arm, read_comparison
from evo.errors import BadInput


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
