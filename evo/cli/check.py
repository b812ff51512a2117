"""`evo check`: a red team for a scorer."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from evo.checks.soundness import check_problem
from evo.checks.subject import EXPLOITED, CheckReport
from evo.cli.flags import collect_given, flag
from evo.cli.options import json_option, open_console, plain_option, print_json
from evo.config.parse import OPTIONS, parse
from evo.config.run import EvaluateConfig
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
                _print(console, report)
    if as_json:
        print_json([report.record() for report in reports], default=float)
    return 1 if any(report.faults for report in reports) else 0


def _print(console: Console, report: CheckReport) -> None:
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
