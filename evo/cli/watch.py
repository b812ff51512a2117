"""`evo watch`: a run or a comparison on a live screen, from another terminal or another machine. Reads only."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator

import click
from rich.console import Console

from evo.cli.options import db_option, plain_option
from evo.monitor.poller import Poller
from evo.monitor.snapshot import Snapshot
from evo.tui.frame import draw_frame
from evo.tui.head import mean_best
from evo.tui.line import clean
from evo.tui.numbers import clock, fitness, rate
from evo.tui.palette import spell
from evo.tui.screen import show_screen
from evo.tui.terminal import can_show
from evo.tui.view import View
from islands.db.store import Store

PLAIN_SECONDS, PLAIN_SECONDS_LATER = 5.0, 30.0
ONCE_WIDTH, ONCE_HEIGHT = 100, 40


@click.command()
@click.argument("name", metavar="RUN")
@db_option
@click.option(
    "--against", metavar="ARM", help="the arm that others are measured against  [default: grpo, or the first]"
)
@plain_option
@click.option("--once", is_flag=True, help="print one picture and end")
def watch(name: str, db: str, against: str | None, plain: bool, once: bool) -> int:
    """Watch RUN, a search or a comparison, while it runs or after; q leaves it running.

    It reads the database alone and never writes, so it may run anywhere that reaches the database.
    """

    console = Console(highlight=False, markup=False, emoji=False)
    if once:
        return _once(name, db, against, console)
    if plain or not can_show(console):
        return _plain(name, db, against, console)
    return asyncio.run(_live(name, db, against, console))


async def _live(name: str, db: str, against: str | None, console: Console) -> int:

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    code = [0]

    def end(number: int) -> None:
        code[0] = 130
        ended.set()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, end, number)
    try:
        async with show_screen(db, name, console, against=against) as shown:
            waits = [asyncio.create_task(shown.left()), asyncio.create_task(ended.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits[1:], return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):
                await waits[0]
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    return code[0]


@contextlib.contextmanager
def _poller(name: str, db: str, against: str | None) -> Iterator[Poller]:

    with Store.open(db, read_only=True) as store:
        yield Poller(store, name, against)


def _loaded(poller: Poller) -> Snapshot:
    """A snapshot of everything that the database has now."""
    while True:
        snapshot = poller.poll()
        if snapshot.loaded >= snapshot.runs:
            return snapshot


def _once(name: str, db: str, against: str | None, console: Console) -> int:

    with _poller(name, db, against) as poller:
        snapshot = _loaded(poller)
    terminal = console.is_terminal
    width = console.width if terminal else ONCE_WIDTH
    height = max(24, console.height - 1) if terminal else ONCE_HEIGHT
    picture = draw_frame(snapshot, View(), width, height, time.time())
    del picture.lines[-1]  # its keys do nothing here
    console.print(picture.spell(console.encoding), end="", soft_wrap=True)
    return 0


def _plain(name: str, db: str, against: str | None, console: Console) -> int:
    """A line for each arm every few seconds, until every run has ended."""

    began = time.monotonic()
    with _poller(name, db, against) as poller:
        while True:
            snapshot = _loaded(poller)
            for line in plain_lines(snapshot, time.time()):
                console.print(spell(line, console.encoding), soft_wrap=True)
            if snapshot.ended:
                for text in snapshot.verdict:
                    console.print(text, soft_wrap=True)
                return 0
            time.sleep(plain_pause(time.monotonic() - began))


def plain_pause(elapsed: float) -> float:
    """Seconds to the next lines, so long after the first."""
    return PLAIN_SECONDS if elapsed < 60 else PLAIN_SECONDS_LATER


def plain_lines(snapshot: Snapshot, now: float) -> list[str]:
    """The snapshot as one line for each arm: times, how far it is, what was solved, throughput, faults."""

    lines = []
    for arm in snapshot.arms:
        statuses = ", ".join(f"{n} {status}" for status, n in arm.statuses.items())
        parts = [clock(snapshot.elapsed(now)), arm.name, statuses, f"{arm.groups:,}/{arm.planned:,} iterations"]
        if arm.results is not None and arm.results.judged.any():
            known = arm.results.solved_at[arm.results.judged]
            parts.append(f"solved {int((known < float('inf')).sum())}/{known.size}")
        parts.append(f"mean best {fitness(mean_best(arm))}")
        told = arm.telemetry
        if told.answers_per_second is not None:
            parts.append(f"{rate(told.answers_per_second)} answers/s")
        if told.tokens_per_second is not None:
            parts.append(f"{rate(told.tokens_per_second)} tokens/s")
        if told.policy_busy is not None:
            parts.append(f"policy busy {told.policy_busy:.0%}")
        if told.in_flight:
            parts.append(f"{told.sampled_ahead or 0:,} of {told.in_flight:,} groups in flight sampled")
        if told.errors:
            parts.append("errors: " + ", ".join(f"{kind} {n:,}" for kind, n in list(told.errors.items())[:3]))
        silent = snapshot.silent(now)
        if silent is not None:
            parts.append(f"nothing heard for {clock(silent)}")
        lines.append("  ".join(clean(part) for part in parts))
    return lines
