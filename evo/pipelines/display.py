"""The output of a pipeline: its plan, a line for the begin and end of each stage, and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from evo.pipelines.file import KINDS, SEARCHES
from evo.pipelines.plan import Next, Planned
from evo.pipelines.stage import PipelineFolder
from evo.pipelines.state import StageState, State, Status
from evo.search.status import clock
from islands.db.address import hide_password

_NOT_RUN = "not run"
_STYLES = {
    Status.DONE: "green",
    Status.FAILED: "bold red",
    Status.INTERRUPTED: "yellow",
    _NOT_RUN: "dim",
    Next.NOT_CHOSEN: "dim",
}


def print_plan(console: Console, plan: Sequence[Planned], place: PipelineFolder) -> None:
    """Print a row for each stage, and below it its inputs, result and cost; fits 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("stage", no_wrap=True)
    table.add_column("budget, what it reads and makes", overflow="fold")
    table.add_column("answers", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for planned in plan:
        stage, cost = planned.stage, planned.cost
        makes = f"{', '.join(stage.reads)} -> " if stage.reads else "-> "
        what = Text(f"{cost.text}\n")
        what.append(f"{makes}{describe_output(planned.record, place)}", "dim")
        table.add_row(
            Text(f"{stage.name}\n").append(stage.kind, "dim"),
            what,
            _count(planned),
            Text(planned.next, _STYLES.get(planned.next, "")),
        )
    console.print(table, soft_wrap=False)
    record = plan_record(plan, place)
    most = "at most " if any(planned.cost.at_most for planned in plan if planned.works) else ""
    spent = record["answers"] - record["answers_to_do"]
    known = f", {spent:,} of them in stages that are done or not chosen" if spent else ""
    console.print(f"\nanswers in all: {record['answers']:,}{known}; to do: {most}{record['answers_to_do']:,}")
    console.print(f"directory {place.folder}, database {hide_password(place.db)}; nothing was written")


def plan_record(plan: Sequence[Planned], place: PipelineFolder) -> dict[str, Any]:
    """The plan for JSON. answers: of all stages; answers_to_do: of the unfinished ones, counted in full even if they
    are partly done."""
    stages = [
        {
            "name": planned.stage.name,
            "kind": planned.stage.kind,
            "reads": list(planned.stage.reads),
            "makes": KINDS[planned.stage.kind].makes,
            "output": describe_output(planned.record, place),
            "budget": planned.cost.text,
            "answers": planned.cost.answers,
            "at_most": planned.cost.at_most,
            "next": planned.next.value,
        }
        for planned in plan
    ]
    return {
        "stages": stages,
        "answers": sum(planned.cost.answers or 0 for planned in plan),
        "answers_to_do": sum(planned.cost.answers or 0 for planned in plan if planned.works),
    }


class ProgressPrinter:
    """Prints a line when a stage begins, and how it ended."""

    def __init__(self, console: Console, plan: Sequence[Planned], place: PipelineFolder) -> None:
        self.console, self.place = console, place
        self._number = {planned.stage.name: index for index, planned in enumerate(plan, 1)}
        self._count = len(plan)
        for planned in plan:
            if planned.next is Next.DONE:
                self._print(planned, "done before: ", describe_output(planned.record, place))

    def __call__(self, planned: Planned, record: StageState, what: str) -> None:
        if what == "begins":
            self.console.print()
            on = "goes on, " if planned.next is Next.GOES_ON else ""
            self._print(planned, f"{on}{planned.stage.kind}, ", planned.cost.text)
        elif record.state is Status.DONE:
            self._print(planned, f"done in {clock(record.seconds)}: ", describe_output(record, self.place))
        else:
            self._print(
                planned, f"{record.state} after {clock(record.seconds)}", f": {record.reason}" * bool(record.reason)
            )

    def _print(self, planned: Planned, told: str, more: str) -> None:
        where = f"[{self._number[planned.stage.name]}/{self._count}] "
        self.console.print(
            Text(where, "dim").append(planned.stage.name, "bold not dim").append(f": {told}{more}", "not dim")
        )


def summary(plan: Sequence[Planned], state: State, place: PipelineFolder, outcome: Status) -> dict[str, Any]:
    """The result for JSON. skipped: the stage was done before; seconds: of all work on it."""
    stages = []
    for planned in plan:
        record = state.stages.get(planned.stage.name, planned.record)
        how = _NOT_RUN if record.state is Status.WAITING else str(record.state)
        waits = [name for name in planned.stage.reads if state.stages.get(name, record).state is not Status.DONE]
        reason = record.reason or (f"reads {', '.join(waits)}" if how == _NOT_RUN and planned.works and waits else "")
        stages.append(
            {
                "name": planned.stage.name,
                "kind": planned.stage.kind,
                "state": how,
                "skipped": planned.next is Next.DONE,
                "chosen": planned.next is not Next.NOT_CHOSEN,
                "reads": list(planned.stage.reads),
                "output": describe_output(record, place) if how == Status.DONE else None,
                "seconds": record.seconds,
                "attempt": record.attempt,
                "reason": reason,
            }
        )
    return {
        "outcome": outcome.value,
        "directory": str(place.folder),
        "db": hide_password(place.db),
        "stages": stages,
    }


def print_end(console: Console, record: dict[str, Any], again: str) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("stage", "kind", "state", "time", "gives"):
        table.add_column(
            title, justify="right" if title == "time" else "left", no_wrap=title != "gives", overflow="fold"
        )
    for stage in record["stages"]:
        how = stage["state"]
        table.add_row(
            stage["name"],
            stage["kind"],
            Text(how, _STYLES.get(how, "")),
            clock(stage["seconds"]) if stage["seconds"] else "-",
            stage["output"] or stage["reason"] or "-",
        )
    console.print()
    console.print(table, soft_wrap=False)
    if record["outcome"] != Status.DONE:
        console.print(f"go on with: {again}")
    runs = [stage["output"] for stage in record["stages"] if stage["kind"] in SEARCHES and stage["output"]]
    if runs:
        console.print(f"look at it: evo watch {runs[-1].removeprefix('run ')} --db {record['db']}")


def describe_output(record: StageState, place: PipelineFolder) -> str:
    """The result of a stage in words: a path, or `run NAME`."""
    return f"run {record.gives}" if record.kind in SEARCHES else place.address(record)


def _count(planned: Planned) -> str:
    if planned.cost.answers is None:
        return "-"
    return f"{'<' if planned.cost.at_most else ''}{planned.cost.answers:,}"
