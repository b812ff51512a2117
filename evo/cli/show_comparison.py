"""`evo show` of a comparison: its runs, and where its arms stand."""

from __future__ import annotations

import json
import shlex
from collections import Counter

import click
from rich.console import Console

from evo.cli.options import WIDE
from evo.comparison.load import gather, load_results
from evo.comparison.operators import load_operators
from evo.comparison.table import as_dict, costs_of, print_summary
from evo.comparison.verdict import summarise
from islands.db.store import Store
from islands.queries.training import checkpoints


def show_comparison(store: Store, name: str, as_json: bool) -> None:
    """Where the arms stand, as a table or as JSON; what each run has come to, by name."""
    comparison = gather(store, name)
    found = load_results(store, comparison)
    costs = {arm.name: costs_of(store, arm) for arm in comparison.arms}
    operators = load_operators(store, comparison)
    summary = summarise(found, comparison.reference, crossed_seeds=comparison.crossed_seeds) if found else None
    saved = {run.name: checkpoints(store, run.id) for run in comparison.runs}
    if as_json:
        runs = [
            {"name": run.name, "arm": run.arm, "seed": run.seed, "status": run.status, "reason": run.reason,
             "checkpoints": saved[run.name]}
            for run in comparison.runs
        ]  # fmt: skip
        click.echo(json.dumps({**as_dict(comparison, summary, costs, operators), "runs": runs}))
        return
    console = Console(highlight=False, width=WIDE)
    statuses = ", ".join(f"{count} {status}" for status, count in Counter(r.status for r in comparison.runs).items())
    first = comparison.runs[0]
    head = f"{name}: a comparison of {len(comparison.arms)} arms, {len(comparison.runs)} runs ({statuses})"
    console.print(head, soft_wrap=True, markup=False)
    console.print(first.command, style="dim", soft_wrap=True, markup=False)
    print_summary(console, comparison, summary, costs, operators)
    for run in comparison.runs:
        if run.status == "failed":
            console.print(f"{run.name} failed: {run.reason}", soft_wrap=True, markup=False)
        if saved[run.name]:
            console.print(f"{run.name}: checkpoint {saved[run.name][-1]}", soft_wrap=True, markup=False)
    console.print(f"each by itself: evo show {shlex.quote(first.name)}", soft_wrap=True, markup=False)
