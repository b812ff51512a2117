"""`evo problems`: list the problems that can be searched."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import click

from evo.cli.options import format_number, json_option, open_console, print_json, print_table
from problems.contract import Problem
from problems.registry import describe_sets, families, resolve
from problems.retired import COMMANDS, replace_hint

WIDEST, INDENT = 110, 4
WHO_SEARCHES = (
    "The embedded policies that ship search mazes. Other problems take a hub id, a directory or openai:MODEL@URL, or "
    "scripted:mutate (random edits of text, numbers and programs, no model)."
)


class _Problems(click.Command):
    """A command that had two subcommands once."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and (line := replace_hint(COMMANDS, f"problems {args[0]}")):
            raise click.UsageError(line, ctx)
        return super().parse_args(ctx, args)


@click.command(cls=_Problems)
@click.argument("address", required=False)
@click.option("--limit", type=click.IntRange(1), help="Use only the first K.")
@json_option
def problems(address: str | None, limit: int | None, as_json: bool) -> None:
    """List the problem sets, or the problems that ADDRESS names (a single problem is shown with its statement)."""
    console = open_console(markup=False)
    if address is None:
        sets = describe_sets()
        if as_json:
            print_json(sets)
            return
        for line in draw_sets(sets, min(console.width, WIDEST)):
            console.print(line, soft_wrap=True)
        for text in (_list_files(), WHO_SEARCHES):
            console.print("\n".join(textwrap.wrap(text, min(console.width, WIDEST))), soft_wrap=True)
        return
    chosen = resolve(address, limit=limit)
    if as_json:
        print_json([_to_dict(problem) for problem in chosen])
        return
    if len(chosen) == 1:
        problem = chosen[0]
        if problem.fault is not None:
            raise problem.fault
        target = "none" if problem.target is None else format_number(problem.target)
        known = "" if problem.best_known is None else f"; best known {problem.best_known:.12g}"
        console.print(f"{problem.name}: objectives {', '.join(problem.objectives)}; target {target}{known}")
        if problem.source:
            console.print(f"source: {problem.source}; licence: {problem.licence or '-'}")
        console.print()
        console.print(problem.statement())
        return
    titles = ("problem", "objectives", "target")
    rows = [(problem.name, str(len(problem.objectives)), format_number(problem.target)) for problem in chosen]
    print_table(console, titles, rows, right=titles[1:])


def draw_sets(sets: Sequence[Mapping[str, Any]], width: int) -> Iterator[str]:
    """The sets by name, size and description. Sets with equal objectives, source and licence share a line of them."""
    names = max(len("set"), *(len(row["name"]) for row in sets))
    sizes = max(len("size"), *(len(_format_size(row)) for row in sets))
    yield f"{'set':<{names}}  {'size':>{sizes}}  what it is"
    yield " " * INDENT + "objectives; source; licence"
    yield ""
    for terms, members in groupby(sets, _format_terms):
        for row in members:
            head = f"{row['name']:<{names}}  {_format_size(row):>{sizes}}  "
            yield from _wrap(head, row["description"], width)
        if terms:
            yield from _wrap(" " * INDENT, terms, width)
        yield ""


def _list_files() -> str:
    names = sorted({family.name for family in families() if family.reads_files} - {"list"})
    read = ", ".join(f"{name}:FILE" for name in names)
    return f"Also: {read}, list:FILE (an address a line), a scorer file (PATH.py), an OpenEvolve directory (PATH)."


def _wrap(head: str, text: str, width: int) -> list[str]:
    """The text after the head. Further lines begin below the text, or at INDENT if the head is long."""
    indent = " " * len(head) if len(head) <= width // 2 else " " * INDENT
    return textwrap.wrap(text, max(width, len(head) + INDENT), initial_indent=head, subsequent_indent=indent) or [head]


def _format_size(row: Mapping[str, Any]) -> str:
    return "-" if row["count"] is None else f"{row['count']:,}"


def _format_terms(row: Mapping[str, Any]) -> str:
    return "; ".join(filter(None, (_shorten(row["objectives"]), row["source"], row["licence"])))


def _to_dict(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "objectives": list(problem.objectives),
        "target": problem.target,
        "best_known": problem.best_known,
        "answer_format": problem.answer_format,
        "source": problem.source,
        "licence": problem.licence,
    }


def _shorten(objectives: Sequence[str]) -> str:
    """All objectives, or the first three and their number if there are more than four."""
    if len(objectives) < 5:
        return ", ".join(objectives)
    return f"{', '.join(objectives[:3])}, ... ({len(objectives)})"
