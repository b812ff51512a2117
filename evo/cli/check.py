"""`evo check`: a red team for a scorer. `evo verify`: is the winner of a search real?"""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from evo.checks.soundness import check_problem
from evo.checks.subject import EXPLOITED, CheckReport
from evo.cli.flags import collect_given, flag
from evo.cli.live import Lines
from evo.cli.options import (
    db_option,
    json_option,
    named_weights_option,
    open_console,
    plain_option,
    print_json,
    print_table,
    read_command,
)
from evo.config.parse import OPTIONS, parse
from evo.config.run import EvaluateConfig, RunConfig
from evo.search.resources import resolve_problems

_LEVELS = {"ok": ("ok", "green"), "finding": ("FAULT", "bold red"), "note": ("note", "yellow"), "skipped": ("-", "dim")}
_MOST_PROBLEMS = 3
"""Problems to check of an address that names more."""


@click.command("check")
@click.argument("problems", nargs=-1, required=True, metavar="PROBLEM...")
@flag(EvaluateConfig, "seed")
@flag(EvaluateConfig, "limit", help=f"Use only the first K problems of each set.  [default: {_MOST_PROBLEMS}]")
@flag(EvaluateConfig, "sandbox")
@click.option(
    "--mutants", type=click.IntRange(16, 10_000), default=64, show_default=True, help="Answers to measure on."
)
@json_option
@plain_option
def check_command(problems: tuple[str, ...], mutants: int, as_json: bool, plain: bool, **options: Any) -> int:
    """Check the scorer of each PROBLEM before a search of it: is it deterministic, are its objectives worth having, can
    an answer cheat? Attacks run in the sandbox, as answers do.

    Exit code 0: no fault; 1: there are faults; 2: bad input.

    \b
    evo check my_scorer.py
    evo check examples/valley --json
    """
    given = collect_given(options)
    console = open_console(stderr=as_json, color_system=None if plain else "auto")
    reports: list[CheckReport] = []
    for address in problems:
        config = parse(EvaluateConfig, {"limit": _MOST_PROBLEMS, **given, "problems": [address]}, OPTIONS).run_config()
        for problem in resolve_problems(config):
            with console.status(f"checking {escape(problem.name)}"):
                report = check_problem(problem, sandbox=config.sandbox, seed=config.seed, mutants=mutants)
            reports.append(report)
            if not as_json:
                _print_report(console, report)
    if as_json:
        print_json([report.record() for report in reports], default=float)
    return 1 if any(report.faults for report in reports) else 0


def _print_report(console: Console, report: CheckReport) -> None:
    console.print(f"[bold]{escape(report.problem)}[/bold]", soft_wrap=True)
    width = max(len(finding.check) for finding in report.findings)
    for finding in report.findings:
        word, style = _LEVELS[finding.level]
        shown = f"[{style}]{word:<5}[/{style}] {finding.check:<{width}}"
        console.print(f"  {shown}  {escape(finding.summary)}", soft_wrap=True)
        for line in finding.details if finding.level != "ok" or finding.check == "collinear" else ():
            console.print(f"  {'':<5} {'':<{width}}    {escape(line)}", soft_wrap=True, style="dim")
    named = [fault.check for fault in report.faults if fault.check not in EXPLOITED]
    exploited = [fault.check for fault in report.faults if fault.check in EXPLOITED]
    told = [f"the scores are wrong or say little: {', '.join(named)}"] * bool(named)
    told += [f"a model that tries could cheat: {', '.join(exploited)}"] * bool(exploited)
    untried = f"not tried: {', '.join(one.check for one in report.skipped)}" if report.skipped else ""
    verdict = "; ".join([*told, untried] if told else ["no fault found", untried]).removesuffix("; ")
    scored = f"{report.asked:,} answers scored in {report.seconds:.0f} s"
    console.print(
        f"  {verdict} ({scored})\n", style="red" if told else "yellow" if untried else "green", soft_wrap=True
    )


@click.command("verify")
@click.argument("name", metavar="RUN")
@click.option("--problem", multiple=True, metavar="NAME", help="Verify only this problem of the run.")
@click.option(
    "--repeats",
    type=click.IntRange(1, 10_000),
    help="Scores of each answer.  [default: 1, or 10 if the scorer is noisy]",
)
@click.option(
    "--sample/--no-sample", default=None, help="Run plain sampling.  [default: if the policy is small and local]"
)
@click.option("--tune/--no-tune", default=True, help="Run the tuned start.  [default: on]")
@flag(RunConfig, "max_answers", help="Answers of plain sampling, and of the tuned start.  [default: as the search]")
@flag(RunConfig, "max_seconds", help="Stop plain sampling, and the tuned start, after this many seconds each.")
@named_weights_option
@db_option
@plain_option
@json_option
def verify_command(name: str, db: str, plain: bool, as_json: bool, **options: Any) -> int:
    """Score the best answer of RUN and its seed again: once, or ten times in turn if the scorer is noisy, and on
    held-out cases if it has any. Before that, search with the same number of answers without evolution: the numbers of
    the seed tuned by CMA-ES (a run RUN-tuned), and the policy sampled without a parent (RUN-sampled).

    A verification that was interrupted continues. Exit code 1: a best answer cannot be scored now.

    \b
    evo verify mine
    evo verify mine --repeats 30 --no-tune
    """
    from evo.api.drive import Driver
    from evo.api.verify import verify_run  # slow to import
    from evo.comparison.verification import write_mean

    console = open_console(stderr=as_json, color_system=None if plain else "auto", markup=False)
    found = verify_run(name, db, lambda: Driver(Lines(console), command=True), read_command(), **options)
    if as_json:
        print_json(found.record())
    else:
        fitness = found.fitness
        gains = {answer: fitness.gain(answer) for answer in fitness.values}
        rows = [(found.name(one), write_mean(fitness.mean(one)), str(gain or "-")) for one, gain in gains.items()]
        print_table(console, ("answer", fitness.name, "winner better by"), rows)
        console.print(f"\n{found}")
    return 1 if found.failed else 0
