"""`evo problems`: what there is to search."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from evo.cli.options import json_option
from problems.registry import describe_sets, resolve


@click.command()
@click.argument("address", required=False)
@click.option("--limit", type=click.IntRange(1), help="only the first K")
@json_option
def problems(address: str | None, limit: int | None, as_json: bool) -> None:
    """List the problem sets, or the problems that ADDRESS names (one problem alone is shown with its statement)."""
    console = Console(highlight=False, markup=False)
    table = Table(box=None, pad_edge=False)
    if address is None:
        sets = describe_sets()
        if as_json:
            click.echo(json.dumps(sets))
            return
        for title in ("set", "size", "what"):
            table.add_column(title, justify="right" if title == "size" else "left", no_wrap=title != "what")
        for row in sets:
            table.add_row(str(row["name"]), str(row["count"]), str(row["description"]))
        console.print(table)
        console.print("\nAlso: programs:FILE.jsonl, a scorer file (PATH.py), an OpenEvolve directory (PATH).")
        return
    found = resolve(address, limit=limit)
    if as_json:
        rows = [
            {"name": p.name, "objectives": list(p.objectives), "target": p.target, "answer_format": p.answer_format}
            for p in found
        ]
        click.echo(json.dumps(rows))
        return
    if len(found) == 1:
        problem = found[0]
        console.print(f"{problem.name}: objectives {', '.join(problem.objectives)}; target {problem.target}\n")
        console.print(problem.statement())
        return
    for title in ("problem", "d", "target"):
        table.add_column(title, justify="left" if title == "problem" else "right")
    for problem in found:
        target = "-" if problem.target is None else f"{problem.target:.4g}"
        table.add_row(problem.name, str(len(problem.objectives)), target)
    console.print(table)
