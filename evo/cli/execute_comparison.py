"""What `compare`, `resume` and `demo` share: drive a comparison's runs, obey Ctrl-C, say where the arms summary."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from evo.cli.execute_run import handling_interrupts
from evo.cli.live import open_live, say_loading
from evo.cli.options import Manner, arguments_for
from evo.cluster import cluster_runner
from evo.comparison.load import gather, load_results
from evo.comparison.operators import load_operators
from evo.comparison.runner import Ended, Runner, SeedBatch
from evo.comparison.runner_choice import runner_for
from evo.comparison.table import as_dict, costs_of, print_summary
from evo.comparison.verdict import summarise
from evo.comparison.workers import Workers
from evo.config.run import RunConfig
from evo.errors import BadInput
from evo.runs.scorer_change import UNCHANGED, Changes
from islands.db.store import Store

if TYPE_CHECKING:
    from evo.cluster.runner import ClusterRunner

Begin = Callable[[], tuple[str, Sequence[SeedBatch]]]
"""Stores what is to be searched; the comparison's name and its seed batches."""


def conduct(
    begin: Begin,
    configs: Sequence[RunConfig],
    manner: Manner,
    *,
    changes: Changes = UNCHANGED,
    ending: Callable[[Console, str], None] | None = None,
) -> int:
    """Prepare for the runs' configurations, then begin and search all seed batches; the exit code.

    What is wrong with the input is found before `begin` is called; everything committed stays, however it ends.
    `ending` prints something more after a comparison that is done.
    """
    try:
        return asyncio.run(_conduct(begin, configs, manner, changes, ending))
    except asyncio.CancelledError:  # a second Ctrl-C before anything was searched
        return 130


async def _conduct(
    begin: Begin,
    configs: Sequence[RunConfig],
    manner: Manner,
    changes: Changes,
    ending: Callable[[Console, str], None] | None,
) -> int:
    console = Console(stderr=manner.as_json, highlight=False)
    runner = open_runner(configs, manner)
    interrupted = False
    ended: list[Ended] = []
    try:
        with handling_interrupts(runner.interrupt):
            async with open_live(console, manner.plain, say_loading(configs)) as live:
                await runner.prepare(configs)
                if runner.stopping:
                    return 130  # nothing was begun, nothing is stored
                comparison, seed_batches = begin()
                async with live.showing(manner.db, comparison, runner, manner.against):
                    try:
                        ended = await runner.search(manner.db, seed_batches, changes)
                    except asyncio.CancelledError:
                        interrupted = True
    finally:
        await runner.close()
    interrupted = interrupted or bool(runner.stopping) or any(one.outcome == "interrupted" for one in ended)
    failed = [one for one in ended if one.outcome == "failed"]
    report(comparison, manner, console)
    named = arguments_for(comparison, manner.db)
    if not manner.as_json:
        if interrupted or failed:
            console.print(f"go on with: evo resume {named}", soft_wrap=True, markup=False)
        console.print(f"look at it: evo watch {named}   evo report {named}", soft_wrap=True, markup=False)
        if ending is not None and not interrupted and not failed:
            ending(console, comparison)
    for one in failed:
        print(f"evo: {one.run}: {one.reason}", file=sys.stderr)
    for fault in dict.fromkeys(fault for one in ended for fault in one.faults):
        print(f"evo: {fault}", file=sys.stderr)
    return 130 if interrupted else 1 if failed or any(one.faults for one in ended) else 0


def open_runner(configs: Sequence[RunConfig], manner: Manner) -> Runner | Workers | ClusterRunner:
    """Processes here, or a cluster's where one is named."""
    if manner.ray is None:
        return runner_for(configs, manner.processes)
    if manner.processes is not None:
        raise BadInput("--processes are of this machine, and --ray has its own; name one of them")
    return cluster_runner(manner.ray, manner.db)


def report(name: str, manner: Manner, console: Console) -> None:
    """Where the arms summary, as a table or as JSON."""
    with Store.open(manner.db, read_only=True) as store:
        comparison = gather(store, name, manner.against)
        found = load_results(store, comparison)
        costs = {arm.name: costs_of(store, arm) for arm in comparison.arms}
        operators = load_operators(store, comparison)
    summary = summarise(found, comparison.reference, crossed_seeds=comparison.crossed_seeds) if found else None
    if manner.as_json:
        sys.stdout.write(json.dumps(as_dict(comparison, summary, costs, operators)) + "\n")
    else:
        print_summary(console, comparison, summary, costs, operators)
