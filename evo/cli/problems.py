"""`evo problems`: what there is to search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from evo.cli.options import json_option
from problems.contract import Problem
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
        for title in ("set", "size", "what, objectives, source, licence"):
            table.add_column(title, justify="right" if title == "size" else "left", no_wrap=title in ("set", "size"))
        for row in sets:
            size = "-" if row["count"] is None else str(row["count"])
            terms = "; ".join(filter(None, (_brief(row["objectives"]), row["source"], row["licence"])))
            table.add_row(row["name"], size, row["description"] + (f"\n  {terms}" if terms else ""))
        console.print(table)
        console.print(
            "\nAlso: programs:FILE.jsonl, toolrl:FILE, musique:FILE, eureqa:FILE, a scorer file (PATH.py), "
            "an OpenEvolve directory (PATH)."
        )
        console.print(
            "The embedded policies that ship search mazes. Other problems take a hub id, a directory or "
            "openai:MODEL@URL, or scripted:mutate, which needs no model and learns nothing: it changes text, numbers "
            "and programs at random.",
            soft_wrap=True,
        )
        return
    found = resolve(address, limit=limit)
    if as_json:
        click.echo(json.dumps([_row(problem) for problem in found]))
        return
    if len(found) == 1:
        problem = found[0]
        if problem.fault is not None:
            raise problem.fault
        target = "none" if problem.target is None else f"{problem.target:.4g}"
        known = "" if problem.best_known is None else f"; best known {problem.best_known:.12g}"
        console.print(f"{problem.name}: objectives {', '.join(problem.objectives)}; target {target}{known}")
        if problem.source:
            console.print(f"source: {problem.source}; licence: {problem.licence or '-'}")
        console.print()
        console.print(problem.statement())
        return
    for title in ("problem", "d", "target"):
        table.add_column(title, justify="left" if title == "problem" else "right")
    for problem in found:
        target = "-" if problem.target is None else f"{problem.target:.4g}"
        table.add_row(problem.name, str(len(problem.objectives)), target)
    console.print(table)


def _row(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "objectives": list(problem.objectives),
        "target": problem.target,
        "best_known": problem.best_known,
        "answer_format": problem.answer_format,
        "source": problem.source,
        "licence": problem.licence,
    }


def _brief(objectives: Sequence[str]) -> str:
    """The first names, with how many there are."""
    if len(objectives) < 5:
        return ", ".join(objectives)
    return f"{', '.join(objectives[:3])}, ... ({len(objectives)})"
