"""`evo doctor`: whether this machine is ready for a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from evo.cli.options import db_option, json_option, open_console, print_json
from evo.cluster import parse_place
from evo.doctor.doctor import examine
from evo.doctor.line import DoctorLine

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option(
    "--policy", "policies", multiple=True, metavar="POLICY", help="An engine to load and sample from; may be repeated."
)
@click.option("--ray", metavar="ADDRESS", help="Check every node of a Ray cluster, and whether their versions agree.")
@db_option
@json_option
def doctor(policies: tuple[str, ...], ray: str | None, db: str, as_json: bool) -> int:
    """Check this machine before a run: packages, sandbox, database and its clock, GPUs, memory, disk, and the engines
    named by --policy. Nothing is changed. Each line that is not ok has a remedy.

    With --ray every node of a cluster is checked, by a task on that node.

    Exit code 0: ready, perhaps with warnings; 1: something must be fixed first.

    \b
    evo doctor
    evo doctor --db postgresql+psycopg://evo@host/evo --policy openai:qwen@http://host:8000 --json
    evo doctor --ray head:6379 --db postgresql+psycopg://evo@host/evo
    """
    console = open_console(stderr=as_json)
    lines: list[DoctorLine] = []
    records: list[dict[str, str]] = []
    last = ""
    for node, line in _examine(ray, db, policies):
        lines.append(line)
        records.append({"node": node, **line.record()} if node else line.record())
        if not as_json:
            if node != last:
                console.print(f"[bold]{escape(node)}[/bold]", soft_wrap=True)
            _print(console, line)
        last = node
    failed = sum(line.level == "fail" for line in lines)
    if as_json:
        print_json({"ready": not failed, "checks": records})
    else:
        warned = sum(line.level == "warn" for line in lines)
        console.print(f"{'not ready' if failed else 'ready'}: {failed} to fix, {warned} warnings", soft_wrap=True)
    return 1 if failed else 0


def _examine(ray: str | None, db: str, policies: Sequence[str]) -> Iterator[tuple[str, DoctorLine]]:
    """(node, line); the node is "" if only this machine is checked."""
    if ray is None:
        yield from (("", line) for line in examine(db, policies, Path.cwd()))
        return
    place = parse_place(ray)
    from evo.cluster.doctor import examine_cluster

    yield from examine_cluster(place, db, policies, Path.cwd())


def _print(console: Console, line: DoctorLine) -> None:
    style = STYLES[line.level]
    console.print(f"[{style}]{line.level:<4}[/{style}] {line.check:<9} {escape(line.message)}", soft_wrap=True)
    if line.remedy:
        console.print(f"{'':<14} -> {escape(line.remedy)}", soft_wrap=True, style="dim")
