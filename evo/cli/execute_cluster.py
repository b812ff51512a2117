"""What `run` and `resume` share where a cluster does the work: drive it, obey Ctrl-C, say how it ended."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape

from evo.cli.execute_run import handling_interrupts
from evo.cli.live import open_live
from evo.cli.options import arguments_for
from evo.cluster import runner_of_a_run
from evo.comparison.runner import Ended
from evo.config.run import RunConfig
from evo.runs.scorer_change import UNCHANGED, Changes
from islands.db.store import Store


def drive_on_cluster(
    begin: Callable[[], str],
    configs: Sequence[RunConfig],
    ray: str,
    *,
    db: str,
    plain: bool,
    as_json: bool,
    changes: Changes = UNCHANGED,
) -> int:
    """Search one run on a cluster; the exit code. begin: stores it, its name; configs: of a new one, to be checked
    before it is stored."""
    try:
        return asyncio.run(_drive(begin, configs, ray, db, plain, as_json, changes))
    except asyncio.CancelledError:  # a second Ctrl-C
        return 130


async def _drive(
    begin: Callable[[], str],
    configs: Sequence[RunConfig],
    ray: str,
    db: str,
    plain: bool,
    as_json: bool,
    changes: Changes,
) -> int:
    console = Console(stderr=as_json, highlight=False)
    runner = runner_of_a_run(ray, db, configs)
    try:
        with handling_interrupts(runner.interrupt):
            async with open_live(console, plain, f"joining the Ray cluster {runner.place}") as live:
                await runner.prepare(configs)
                if runner.stopping:
                    return 130  # nothing was begun, nothing is stored
                name = begin()
                async with live.showing(db, name, runner):
                    ended = await runner.search_run(name, changes)
    finally:
        await runner.close()
    return report(ended, db, as_json, console)


def report(ended: Ended, db: str, as_json: bool, console: Console) -> int:
    """Say how the run ended; the exit code."""
    with Store.open(db, read_only=True) as store:
        summary = store.run(ended.run).summary
    named = arguments_for(ended.run, db)
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
    else:
        done = {"done": "Done", "interrupted": "Interrupted", "failed": "Failed"}[ended.outcome]
        why = f" ({escape(ended.reason)})" if ended.reason else ""
        console.print(
            f"[bold]{done}[/bold]{why}: run [bold]{escape(ended.run)}[/bold], {summary.get('solved', 0)} solved, "
            f"{summary.get('groups', 0):,} groups, {summary.get('answers', 0):,} answers"
        )
        if ended.outcome != "done":
            console.print(f"go on with: evo resume {named} --ray ...", soft_wrap=True, markup=False)
        console.print(f"look at it: evo show {named}   evo best {named}", soft_wrap=True, markup=False)
    for fault in ended.faults:
        print(f"evo: {fault}", file=sys.stderr)
    if ended.outcome == "failed" and not ended.faults:
        print(f"evo: {ended.run}: {ended.reason}", file=sys.stderr)
    return 130 if ended.outcome == "interrupted" else 1 if ended.outcome == "failed" or ended.faults else 0
