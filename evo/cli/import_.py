"""`evo import`: a checkpoint of OpenEvolve becomes a run."""

from __future__ import annotations

import asyncio
import json

import click
from rich.console import Console
from rich.progress import Progress

from evo.cli.flags import flag
from evo.cli.options import arguments_for, command_line, db_option, json_option, plain_option
from evo.config.run import RunConfig
from evo.openevolve.import_run import Scoring, import_run
from islands.interop.importing import Imported


@click.command("import")
@click.argument("checkpoint", metavar="DIR")
@click.option("--problem", required=True, metavar="ADDRESS", help="what it is a checkpoint of, as evo run names it")
@click.option("--name", help="of the run; default: a readable one is made up")
@click.option(
    "--score",
    "scoring",
    type=click.Choice(["none", "missing", "all"]),
    default="none",
    show_default=True,
    help="score programs anew in the sandbox: those whose metrics give no score, or all",
)
@flag(RunConfig, "sandbox", default="auto")
@db_option
@plain_option
@json_option
def import_(
    checkpoint: str, problem: str, name: str | None, scoring: Scoring, sandbox: str, db: str, plain: bool, as_json: bool
) -> None:
    """Make a run of the OpenEvolve checkpoint DIR, or of the newest one in the output folder DIR: its programs with
    their parents, islands, metrics, prompts and iterations. All of it is stored, or nothing.

    \b
    evo import openevolve_output --problem examples/valley --name valley
    evo resume valley --policy Qwen/Qwen2.5-Coder-0.5B-Instruct --iterations 200
    evo export valley --openevolve back_again
    """
    command = command_line()
    console = Console(stderr=True)
    shown = console.is_terminal and not plain
    with Progress(console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(f"importing {checkpoint}", total=None)
        imported = asyncio.run(
            import_run(
                checkpoint, problem, db=db, name=name, command=command, scoring=scoring, sandbox=sandbox,
                progress=lambda done, total: bar.update(task, completed=done, total=total, description="scoring"),
            )
        )  # fmt: skip
    if as_json:
        counts = {key: value for key, value in vars(imported).items() if isinstance(value, int)}
        click.echo(json.dumps({"run": imported.run.name, "problem": imported.problem.name, **counts}))
    else:
        _tell(imported, arguments_for(imported.run.name, db))


def _tell(imported: Imported, named: str) -> None:
    name = imported.run.name
    details = [
        f"{count:,} {what}"
        for count, what in (
            (imported.failed, "failed"),
            (imported.repeats, "repeats"),
            (imported.copies, "copies on other islands"),
            (imported.orphans, "whose parents are not there"),
        )
        if count
    ]
    told = f" ({', '.join(details)})" if details else ""
    click.echo(f"{name}: {imported.programs:,} programs as {imported.candidates:,} candidates{told}")
    click.echo(f"look at it: evo show {named}   go on with: evo resume {named} --policy POLICY")
