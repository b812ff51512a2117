"""`evo problems`: list the problems that can be searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from evo.cli.options import json_option, open_console, print_json, print_table
from evo.values import target_value, write_value
from problems.contract import Problem
from problems.registry import describe_sets, families, resolve

WHO_SEARCHES = (
    "The embedded policies search mazes, but embedded:rules rules of job shops; "
    "scripted:gp changes formulas and rules without a model. Other problems take a hub id, a directory or "
    "openai:MODEL@URL, or scripted:mutate (random edits of numbers and programs, no model)."
)


@click.command("problems")
@click.argument("address", required=False)
@click.option("--limit", type=click.IntRange(1), help="Use only the first K.")
@json_option
def problems_command(address: str | None, limit: int | None, as_json: bool) -> None:
    """List the problem sets, or the problems that ADDRESS names (a single problem is shown with its statement)."""
    console = open_console(markup=False)
    if address is None:
        sets = describe_sets()
        if as_json:
            print_json(sets)
            return
        titles = ("set", "size", "what it is", "objectives; source; licence")
        print_table(console, titles, [_make_row(row) for row in sets], right=["size"])
        read = ", ".join(
            f"{name}:FILE" for name in sorted({one.name for one in families() if one.reads_files} - {"list"})
        )
        read += ", list:FILE (an address a line), a scorer file (PATH.py), an OpenEvolve directory (PATH)"
        console.print(f"\nAlso: {read}.\n{WHO_SEARCHES}")
        return
    chosen = resolve(address, limit=limit)
    if as_json:
        print_json([_to_dict(problem) for problem in chosen])
        return
    if len(chosen) == 1:
        problem = chosen[0]
        if problem.fault is not None:
            raise problem.fault
        target = "none" if problem.target is None else write_value(target_value(problem.metrics, problem.target))
        known = "" if problem.best_known is None else f"; best known {problem.best_known:.12g}"
        console.print(f"{problem.name}: objectives {', '.join(problem.objectives)}; target {target}{known}")
        if problem.source:
            console.print(f"source: {problem.source}; licence: {problem.licence or '-'}")
        console.print()
        console.print(problem.statement())
        return
    names = ("problem", "objectives", "target")
    rows = [
        (problem.name, str(len(problem.objectives)), write_value(target_value(problem.metrics, problem.target)))
        for problem in chosen
    ]
    print_table(console, names, rows, right=names[1:])


def _make_row(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    objectives = row["objectives"]
    shown = [*objectives[:3], f"... ({len(objectives)})"] if len(objectives) > 4 else objectives
    size = "-" if row["count"] is None else f"{row['count']:,}"
    terms = "; ".join(filter(None, (", ".join(shown), row["source"], row["licence"])))
    return row["name"], size, row["description"], terms


def _to_dict(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "objectives": list(problem.objectives),
        "target": target_value(problem.metrics, problem.target).number,
        "best_known": problem.best_known,
        "answer_format": problem.answer_format,
        "source": problem.source,
        "licence": problem.licence,
    }
