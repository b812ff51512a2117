"""`evo pipeline`: run stages of training, evaluation, search and report from one file."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from evo.cli.options import json_option, open_console, plain_option, print_json
from evo.errors import INTERRUPTED, BadInput
from evo.pipelines.checks import check_pipeline
from evo.pipelines.display import ProgressPrinter, plan_record, print_end, print_plan, summary
from evo.pipelines.file import Pipeline, read_pipeline
from evo.pipelines.plan import Planned, plan_stages
from evo.pipelines.runner import PipelineRunner
from evo.pipelines.stage import PipelineFolder
from evo.pipelines.state import State, Status, load, lock_folder
from islands.db.address import hide_password

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("file", metavar="FILE.yaml")
@click.option(
    "-o", "--output", metavar="DIR", help="The directory of all results.  [default: evo- and the file's name]"
)
@click.option("--db", help="The database of the runs.  [default: the file's, else DIR/evo.db]")
@click.option("--dry-run", is_flag=True, help="Print the plan and what it will cost; write nothing.")
@click.option("--only", multiple=True, metavar="STAGE", help="Do only this stage; may be repeated.")
@click.option("--from", "first", metavar="STAGE", help="Do this stage and those after it.")
@click.option(
    "--redo",
    multiple=True,
    metavar="STAGE",
    help="Do this stage and all stages that read it again; the old results are kept.",
)
@click.option("--keep-going", is_flag=True, help="After a failure continue with stages that do not read what failed.")
@plain_option
@json_option
def pipeline(
    file: str,
    output: str | None,
    db: str | None,
    dry_run: bool,
    only: tuple[str, ...],
    first: str | None,
    redo: tuple[str, ...],
    keep_going: bool,
    plain: bool,
    as_json: bool,
) -> int:
    """Do the stages of FILE.yaml in order: pretrain, train, evaluate, search, compare, report.

    Each stage has a name, its kind, and the keys of its command's --config file; ${STAGE} is the result of an earlier
    stage. Finished stages are not done again: after Ctrl-C, a crash or a failure the same command continues.

    \b
    evo pipeline maze.yaml --dry-run
    evo pipeline maze.yaml -o runs/maze
    evo pipeline maze.yaml -o runs/maze --redo vpo
    """
    read = read_pipeline(file)
    chosen = _choose(read, only, first)
    for name in redo:
        _check_stage(read, "--redo", name)
        if name not in chosen:
            raise BadInput(f"--redo {name}: is not among the chosen stages")
    folder = Path(output or f"evo-{Path(file).stem}")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"-o {folder}: is a file")
    named = db or read.db
    address = named or f"sqlite:///{folder / 'evo.db'}"
    place = PipelineFolder(folder, address)
    kept = load(folder)
    if kept is not None and kept.db != hide_password(named or ""):
        where = kept.db or "the directory's database"
        raise BadInput(f"-o {folder}: its runs are in {where}; use another directory for another database")
    place.check_database()
    costs = check_pipeline(read)
    console = open_console(stderr=as_json, markup=False, soft_wrap=True)

    def make_plan() -> tuple[State, list[Planned]]:
        state = load(folder) or State(name=_make_prefix(folder), db=hide_password(named or ""))
        return state, plan_stages(read, costs, state, place, chosen=chosen, redo=redo)

    if dry_run:
        state, plan = make_plan()
        if as_json:
            print_json(_describe_plan(plan, file, place))
        else:
            print_plan(console, plan, place)
        return 0
    make_plan()  # mistakes are reported before a directory is made
    with lock_folder(folder) as lock:
        state, plan = make_plan()
        runner = PipelineRunner(
            place, state, lock, plain=plain, quiet=as_json, report=ProgressPrinter(console, plan, place)
        )
        outcome = runner.run(plan, keep_going=keep_going)
        return _report(state, plan, place, outcome, as_json, console, _format_command(file, output, db))


def _report(
    state: State,
    plan: Sequence[Planned],
    place: PipelineFolder,
    outcome: Status,
    as_json: bool,
    console: Console,
    again: str,
) -> int:
    """Print how the pipeline ended; returns the exit code."""
    record = summary(plan, state, place, outcome)
    if as_json:
        print_json(record)
    else:
        print_end(console, record, again)
    for stage in record["stages"]:
        if stage["state"] == Status.FAILED:
            print(f"evo: stage {stage['name']} failed: {stage['reason']}", file=sys.stderr)
    return {Status.DONE: 0, Status.FAILED: 1, Status.INTERRUPTED: INTERRUPTED}[outcome]


def _choose(read: Pipeline, only: Sequence[str], first: str | None) -> set[str]:
    names = list(read.stages)
    if only and first is not None:
        raise BadInput("--only and --from cannot go together")
    for name in only:
        _check_stage(read, "--only", name)
    if first is not None:
        _check_stage(read, "--from", first)
        return set(names[names.index(first) :])
    return set(only or names)


def _check_stage(read: Pipeline, flag: str, name: str) -> None:
    if name not in read.stages:
        raise BadInput(f"{flag} {name}: there is no such stage; there are {', '.join(read.stages)}")


MOST_OF_FOLDER = 36
"""Characters of the directory's name at most: with the 40 of a stage's name it fits a run's name (islands.db.names)."""


def _make_prefix(folder: Path) -> str:
    """The prefix of the runs' names: the name of the directory, in characters that need no quoting."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name)[:MOST_OF_FOLDER].strip("-") or "pipeline"


def _format_command(file: str, output: str | None, db: str | None) -> str:
    parts = ["evo", "pipeline", file]
    parts += ["-o", output] if output else []
    parts += ["--db", hide_password(db)] if db else []
    return shlex.join(parts)


def _describe_plan(plan: Sequence[Planned], file: str, place: PipelineFolder) -> dict[str, Any]:
    return {
        "pipeline": file,
        "directory": str(place.folder),
        "db": hide_password(place.db),
        **plan_record(plan, place),
    }
