"""`evo pipeline`: do ordered stages of training, evaluation, search and report from one file."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from evo.cli.options import format_arguments, json_option, open_console, print_json, print_table
from evo.errors import INTERRUPTED
from evo.pipelines.file import SEARCHES, Stage, read_pipeline
from evo.pipelines.run import PipelineRun, StageRecord, Status
from problems.redaction import redact

_VERBS = {Status.BEGUN: "begins", Status.DONE: "done", Status.INTERRUPTED: "interrupted", Status.FAILED: "failed"}


@click.command("pipeline")
@click.argument("file", metavar="FILE.yaml")
@click.option(
    "-o", "--output", metavar="DIR", help="The directory of all results.  [default: evo- and the file's name]"
)
@click.option("--db", help="The database of the runs.  [default: the file's, else DIR/evo.db]")
@click.option("--dry-run", is_flag=True, help="Print the stages and what each would make; write nothing.")
@json_option
def pipeline_command(file: str, output: str | None, db: str | None, dry_run: bool, as_json: bool) -> int:
    """Do the stages of FILE.yaml in order: train, evaluate, search, compare, report.

    Each stage has a name, its kind, and the keys of its command's --config file; ${STAGE} is the result of an earlier
    stage. Finished stages are not done again: after Ctrl-C, a crash or a failure the same command continues. If a
    setting or an input of a begun stage has changed, as its scorer or its weights, the command refuses. Stages print
    lines; evo watch shows a search on a screen, evo show a training as a table.

    \b
    evo pipeline maze.yaml --dry-run
    evo pipeline maze.yaml -o runs/maze
    """
    read = read_pipeline(file)
    run = PipelineRun(read, Path(output or f"evo-{Path(file).stem}"), db or read.db)
    console = open_console(stderr=as_json, markup=False, soft_wrap=True)
    left = run.left()
    if dry_run:
        _print(console, _describe(run, left, Status.WAITING), as_json, "")
        return 0
    again = ["evo", "pipeline", file, *(["-o", output] if output else []), *(["--db", redact(db)] if db else [])]

    def report(stage: Stage, record: StageRecord) -> None:
        number, verb = list(read.stages).index(stage.name) + 1, _VERBS[record.state]
        if record.state is Status.BEGUN:
            verb += f"; {command}" if (command := _watch(run, stage)) else ""
        console.print(f"[{number}/{len(read.stages)}] {stage.name}: {stage.kind} {verb}", highlight=False)

    outcome, left = run.run(quiet=as_json, report=report)
    _print(console, _describe(run, left, outcome), as_json, shlex.join(again))
    for name, record in run.state.stages.items():
        if record.state is Status.FAILED:
            print(f"evo: stage {name} failed: {record.reason}", file=sys.stderr)
    return {Status.DONE: 0, Status.FAILED: 1, Status.INTERRUPTED: INTERRUPTED}[outcome]


def _watch(run: PipelineRun, stage: Stage) -> str:
    """The command that shows a stage while it works; "" if none does."""
    if stage.kind in SEARCHES:
        return f"evo watch {format_arguments(run.result(stage), run.db)}"
    return f"evo show {shlex.quote(run.result(stage))}" if stage.kind == "train" else ""


def _describe(run: PipelineRun, left: Sequence[Stage], outcome: Status) -> dict[str, Any]:
    stages = []
    for stage in run.pipeline.stages.values():
        record, result = run.record(stage.name), run.result(stage)
        stages.append(
            {
                "name": stage.name,
                "kind": stage.kind,
                "state": str(record.state),
                "skipped": stage not in left,
                "reads": list(stage.reads),
                "output": f"run {result}" if stage.kind in SEARCHES else result,
                "seconds": record.seconds,
                "reason": record.reason,
            }
        )
    return {"outcome": str(outcome), "directory": str(run.folder), "db": redact(run.db), "stages": stages}


def _print(console: Console, record: dict[str, Any], as_json: bool, again: str) -> None:
    if as_json:
        print_json(record)
        return
    rows = []
    for stage in record["stages"]:
        seconds = f"{stage['seconds']:.0f}" if stage["seconds"] else "-"
        reads = ", ".join(stage["reads"]) or "-"
        rows.append((stage["name"], stage["kind"], stage["state"], seconds, reads, stage["reason"] or stage["output"]))
    print_table(console, ("stage", "kind", "state", "seconds", "reads", "makes"), rows, right=["seconds"])
    runs = [stage["output"] for stage in record["stages"] if stage["output"].startswith("run ")]
    if again and record["outcome"] != Status.DONE:
        console.print(f"Resume with: {again}")
    elif again and runs:
        console.print(f"Next: evo watch {runs[-1].removeprefix('run ')} --db {record['db']}")
