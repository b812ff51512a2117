"""`evo doctor`: whether this machine is ready for a run."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from evo.cli.options import db_option, json_option
from evo.doctor.doctor import examine
from evo.doctor.line import Line

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option("--policy", "policies", multiple=True, metavar="POLICY", help="an engine to load and ask; repeatable")
@db_option
@json_option
def doctor(policies: tuple[str, ...], db: str, as_json: bool) -> int:
    """Check this machine before a run: packages, sandbox, database and its clock, GPUs, memory, disk, and the engines
    named by --policy. Nothing is changed. Each line that is not ok says the remedy.

    Exit code 0: ready, warnings included; 1: something must be mended first.

    \b
    evo doctor
    evo doctor --db postgresql+psycopg://evo@host/evo --policy openai:qwen@http://host:8000 --json
    """
    console = Console(highlight=False, stderr=as_json)
    lines: list[Line] = []
    for line in examine(db, policies, Path.cwd()):
        lines.append(line)
        if not as_json:
            _print(console, line)
    failed = sum(line.level == "fail" for line in lines)
    if as_json:
        click.echo(json.dumps({"ready": not failed, "checks": [line.record() for line in lines]}))
    else:
        warned = sum(line.level == "warn" for line in lines)
        console.print(f"{'not ready' if failed else 'ready'}: {failed} to mend, {warned} to know of", soft_wrap=True)
    return 1 if failed else 0


def _print(console: Console, line: Line) -> None:
    style = STYLES[line.level]
    console.print(f"[{style}]{line.level:<4}[/{style}] {line.check:<9} {escape(line.told)}", soft_wrap=True)
    if line.remedy:
        console.print(f"{'':<14} -> {escape(line.remedy)}", soft_wrap=True, style="dim")
