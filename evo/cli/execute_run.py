"""What `run`, `resume` and `demo` share: drive a search, obey Ctrl-C, say how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from rich.console import Console
from rich.markup import escape

from evo.cli.live import open_live
from evo.cli.options import arguments_for
from evo.cli.tables import print_table
from evo.runs.launch import Launched
from evo.runs.result import run_to_end
from evo.search.status import clock, describe_metrics, describe_usage, problem_row
from evo.search.stop import FINISHING, Stop, StopReason
from islands.queries.training import checkpoints

SHOWN_PROBLEMS = 30


def drive(
    prepare: Callable[[], Awaitable[Launched]],
    *,
    db: str,
    plain: bool,
    as_json: bool,
    loading: str = "the run",
    ending: Callable[[Console, Launched], None] | None = None,
) -> int:
    """Launch and run a search; returns the exit code. Everything committed stays, however it ends.

    loading: what is said to be loading until the search begins
    """
    gc.freeze()  # the database's library and what draws the screen, imported since the command was
    console = Console(stderr=as_json, highlight=False, emoji=False)
    return asyncio.run(_drive(prepare, db, plain, as_json, console, loading, ending))


async def _drive(
    prepare: Callable[[], Awaitable[Launched]],
    db: str,
    plain: bool,
    as_json: bool,
    console: Console,
    loading: str,
    ending: Callable[[Console, Launched], None] | None,
) -> int:
    launched: Launched | None = None
    try:
        async with open_live(console, plain, f"loading {loading}") as live:
            launched = await prepare()
            running = launched
            async with live.showing(db, launched.status.run, SearchControls(launched)):
                with handling_interrupts(lambda stop: running.search.interrupt(stop)):
                    found = await run_to_end(launched)
        if as_json:
            sys.stdout.write(json.dumps(found.summary) + "\n")
        else:
            print_summary(console, launched, found.summary, db)
            if ending is not None and found.outcome == "done":
                ending(console, launched)
        for fault in found.faults:
            print(f"evo: {fault}", file=sys.stderr)
        if found.failure is not None:
            raise found.failure
        return 130 if found.outcome == "interrupted" else 1 if found.faults else 0
    finally:
        if launched is not None:
            await launched.close()


class SearchControls:
    """What a person at the screen can do to one search."""

    def __init__(self, launched: Launched) -> None:
        self._launched = launched
        self.paused = launched.search.paused

    def pause(self) -> None:
        self._launched.search.pause()
        self.paused = True

    def resume(self) -> None:
        self._launched.search.resume()
        self.paused = False

    def stop(self) -> None:
        self._launched.search.interrupt(FINISHING)


@contextlib.contextmanager
def handling_interrupts(interrupt: Callable[[Stop], None]) -> Any:
    """First Ctrl-C (or a TERM signal): finish what is in flight. Second: stop at once. A terminal that was closed: as
    the first, unless nohup or its like has said that this does not matter."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    seen = [0]

    def interrupted() -> None:
        seen[0] += 1
        if seen[0] == 1:
            interrupt(Stop(FINISHING.reason, f"{FINISHING} (again to stop at once)"))
        else:
            task.cancel()

    handlers = {signal.SIGINT: interrupted, signal.SIGTERM: interrupted}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = lambda: interrupt(FINISHING)  # never the second: several may send it
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def print_summary(console: Console, launched: Launched, summary: dict[str, Any], db: str) -> None:
    status = launched.status
    rows = []
    for problem_run in status.problem_runs[:SHOWN_PROBLEMS]:
        *cells, state = problem_row(problem_run)
        if problem_run.stop is not None and problem_run.stop.reason is StopReason.FAILED:
            state = "its scorer failed"  # how, is said in lines of their own at the end
        rows.append((*cells, state))
    print_table(console, ("problem", "iterations", "best", "target", ""), rows, right=("iterations", "best", "target"))
    if len(status.problem_runs) > SHOWN_PROBLEMS:
        left = len(status.problem_runs) - SHOWN_PROBLEMS
        console.print(f"... and {left} more (evo show {arguments_for(status.run, db)})", soft_wrap=True, markup=False)
    ended = {"done": "Done", "interrupted": "Interrupted", "failed": "Failed"}[summary["outcome"]]
    why = f" ({escape(summary['reason'])})" if summary["reason"] and summary["outcome"] != "interrupted" else ""
    known = sum(problem_run.target is not None for problem_run in status.problem_runs)
    solved = f"{status.solved} of {known} solved, " if known else ""
    console.print(
        f"\n[bold]{ended}[/bold]{why}: run [bold]{escape(status.run)}[/bold], {solved}{status.groups:,} groups, "
        f"{status.answers:,} answers, {describe_usage(status.tokens, status.prompt_tokens, status.cost)} "
        f"in {clock(status.elapsed)}"
    )
    console.print(describe_metrics(status), style="dim")
    if launched.config.sandbox == "none":
        console.print("warning: --sandbox none: code written by the policy ran without isolation", style="yellow")
    named = arguments_for(status.run, db)
    saved = checkpoints(launched.store, launched.run.id) if launched.config.train is not None else []
    if saved:
        again = shlex.join(["evo", "run", *launched.config.problems[:1], "--policy", saved[-1]])
        console.print(f"the trained policy: {saved[-1]}   try: {again}", soft_wrap=True, markup=False)
    elif launched.config.train is not None and not status.training_seconds:
        every = launched.config.train.every
        said = f"nothing was trained: a step takes {every} prompt groups (--train-every)"
        console.print(said, style="yellow", soft_wrap=True, markup=False)
    if summary["outcome"] != "done":
        console.print(f"go on with: evo resume {named}", soft_wrap=True, markup=False)
    console.print(f"look at it: evo show {named}   evo best {named}", soft_wrap=True, markup=False)
