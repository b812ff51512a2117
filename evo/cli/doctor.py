"""`evo doctor`: whether this machine is ready for a run."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.markup import escape

from evo.cli.options import db_option, json_option, open_console, print_json
from evo.doctor import examine

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command()
@click.option("--policy", metavar="POLICY", help="A policy to load and sample from.")
@db_option
@json_option
def doctor(policy: str | None, db: str, as_json: bool) -> int:
    """Check this machine before a run: the sandbox, the database, GPUs, and the policy that --policy names. Nothing is
    changed. Each line that is not ok has a remedy.

    Exit code 0: ready, perhaps with warnings; 1: something must be fixed first.

    \b
    evo doctor
    evo doctor --db postgresql+psycopg://evo@host/evo --policy openai:qwen@http://host:8000 --json
    """
    console = open_console(stderr=as_json)
    findings = []
    for finding in examine(db, policy):
        findings.append(finding)
        if not as_json:
            style = STYLES[finding.level]
            line = f"[{style}]{finding.level:<4}[/{style}] {finding.check:<9} {escape(finding.message)}"
            console.print(line, soft_wrap=True)
            if finding.remedy:
                console.print(f"{'':<14} -> {escape(finding.remedy)}", soft_wrap=True, style="dim")
    failed = sum(finding.level == "fail" for finding in findings)
    if as_json:
        print_json({"ready": not failed, "checks": [asdict(finding) for finding in findings]})
    else:
        warned = sum(finding.level == "warn" for finding in findings)
        console.print(f"{'not ready' if failed else 'ready'}: {failed} to fix, {warned} warnings", soft_wrap=True)
    return 1 if failed else 0
