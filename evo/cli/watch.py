"""`evo watch`: a run or a comparison on a live screen, from another terminal or another machine. Reads only."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator

import click
from rich.console import Console

from evo.cli.lines import plain_lines, plain_pause
from evo.cli.options import db_option, plain_option
from evo.monitor.poller import Poller
from evo.monitor.snapshot import Snapshot
from evo.tui.detection import can_show
from evo.tui.frame import draw_frame
from evo.tui.palette import spell
from evo.tui.screen import show_screen
from evo.tui.view import View
from islands.db.store import Store

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
