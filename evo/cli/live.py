"""What runs, shown while it runs: the screen on a terminal, else a line for every arm now and then."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from rich.console import Console

from evo.cli.options import db_suffix
from evo.cli.watch import plain_lines, plain_pause
from evo.monitor.poller import Poller
from evo.tui.palette import spell
from evo.tui.screen import Controls, show_screen
from evo.tui.terminal import can_show
from islands.db.store import Store


@contextlib.asynccontextmanager
async def shown(
    db: str, name: str, console: Console, plain: bool, controls: Controls, against: str | None = None
) -> AsyncIterator[None]:
    """Show the run or comparison `name` until the block ends. Both ways read the database, as a watcher would."""
    if not plain and can_show(console):
        async with show_screen(db, name, console, controls=controls, against=against):
            yield
        return
    suffix = db_suffix(db)
    console.print(
        f"{name} begins; another terminal can look on: evo watch {name}{suffix}", soft_wrap=True, markup=False
    )
    lines = asyncio.create_task(_lines(db, name, console, against))
    try:
        yield
    finally:
        lines.cancel()
        await asyncio.gather(lines, return_exceptions=True)


async def _lines(db: str, name: str, console: Console, against: str | None) -> None:
    started = asyncio.get_running_loop().time()
    await asyncio.sleep(plain_pause(0.0))
    with await asyncio.to_thread(Store.open, db, read_only=True) as store:
        poller = await asyncio.to_thread(Poller, store, name, against)
        while True:
            snapshot = await asyncio.to_thread(poller.poll)
            for line in plain_lines(snapshot, time.time()):
                console.print(spell(line, console.encoding), soft_wrap=True, markup=False)
            await asyncio.sleep(plain_pause(asyncio.get_running_loop().time() - started))
