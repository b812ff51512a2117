"""`evo pipeline`: do ordered stages of training, evaluation, search and report from one file."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from evo.cli.options import format_arguments, json_option, open_console, print_json, print_table
from evo.errors import INTERRUPTED, BadInput
from evo.pipelines.file import SEARCHES, Stage, read_pipeline
from evo.pipelines.run import PipelineRun, StageRecord, Status
from evo.progress.training import TrainingProgress
from evo.search.status import clock
from evo.tui.child import can_show
from evo.tui.plot import sparkcurve
from problems.redaction import redact

_MARKS = {
    Status.WAITING: "·", Status.BEGUN: "▸", Status.DONE: "✓", Status.INTERRUPTED: "‖", Status.FAILED: "✗",
}  # fmt: skip
_CURVE = 16
"""Cells of a training's curve."""
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
    setting or an input of a begun stage has changed, as its scorer or its weights, the command refuses; a training goes
    on if its steps grow. A terminal shows the stages, the curve of a training, and the command that watches a stage.

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

    board = _Board(run, console)

    def report(stage: Stage, record: StageRecord, begun_before: bool) -> None:
        number, verb = list(read.stages).index(stage.name) + 1, _VERBS[record.state]
        if record.state is Status.BEGUN:
            verb = (f"continues {_progress(run, stage)[0]}".rstrip() if begun_before else verb) + "; "
            verb += _watch(run, stage)
            board.show(stage)
        console.print(f"[{number}/{len(read.stages)}] {stage.name}: {stage.kind} {verb.rstrip('; ')}", highlight=False)

    with board.live(can_show(console) and not as_json) as on_line:
        outcome, left = run.run(quiet=as_json, report=report, on_line=on_line)
    _print(console, _describe(run, left, outcome), as_json, shlex.join(again))
    for name, record in run.state.stages.items():
        if record.state is Status.FAILED:
            print(f"evo: stage {name} failed: {record.reason}", file=sys.stderr)
    return {Status.DONE: 0, Status.FAILED: 1, Status.INTERRUPTED: INTERRUPTED}[outcome]


class _Board:
    """The stages at the foot of a terminal, while what they print scrolls by above them."""

    def __init__(self, run: PipelineRun, console: Console) -> None:
        self._run, self._console = run, console
        self._stage: Stage | None = None
        self._began = time.monotonic()

    def show(self, stage: Stage) -> None:
        """Its turn begins."""
        self._stage, self._began = stage, time.monotonic()

    @contextlib.contextmanager
    def live(self, shown: bool) -> Iterator[Callable[[str], object] | None]:
        """Show it within the block, if `shown`; gives what takes the lines of stages."""
        if not shown:
            yield None
            return
        with Live(get_renderable=self._draw, console=self._console, refresh_per_second=2, transient=True):
            self._console.show_cursor(True)  # a kill leaves the terminal as it is then
            yield lambda line: self._console.print(Text.from_ansi(line))

    def _draw(self) -> Group:
        rows, below = [], {}
        for number, stage in enumerate(self._run.pipeline.stages.values()):
            record = self._run.record(stage.name)
            working = stage is self._stage and record.state is Status.BEGUN
            stands, curve = _progress(self._run, stage) if working else ("", "")
            seconds = record.seconds + (time.monotonic() - self._began if working else 0.0)
            state = stands or ("works" if working else str(record.state))
            spent = clock(seconds) if seconds else ""
            rows.append((f"{_MARKS[record.state]} {stage.name}", stage.kind, state, spent, curve or record.reason))
            if working:
                below[number] = f"    {_watch(self._run, stage)}".rstrip()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines: list[Text] = []
        for number, row in enumerate(rows):
            cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append(Text(cells.rstrip(), no_wrap=True, overflow="crop"))
            if below.get(number):
                lines.append(Text(below[number], "dim", overflow="fold"))
        return Group(*lines)


def _progress(run: PipelineRun, stage: Stage) -> tuple[str, str]:
    """How far a training is, and the curve of its first metric; "" for other stages, whose lines say it."""
    try:
        training = TrainingProgress.open(run.result(stage))
    except (BadInput, OSError):
        return "", ""
    name = next(iter(training.metrics), "")
    values = training.curve(name).mean if name else np.array([])
    known = values[np.isfinite(values)]
    stands = f"at step {training.step:,} of {training.planned:,}"
    if len(known) < 2:
        return stands, ""
    drawn = sparkcurve(values, _CURVE, float(known.min()), float(known.max()))
    return stands, f"{name} {known[0]:.2f} {drawn} {known[-1]:.2f}"


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
