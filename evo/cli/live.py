"""What runs, shown while it runs: the screen on a terminal, else a line for every arm now and then.

Either is loaded when it is shown: both draw on everything that a comparison has to tell, which takes longer to import
than a short run to search.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from rich.console import Console

from evo.cli.options import db_suffix
from evo.tui.detection import can_show

if TYPE_CHECKING:
    from evo.tui.screen import Controls

FIRST_LINES_SECONDS = 5.0


@contextlib.asynccontextmanager
async def show_live(
    db: str, name: str, console: Console, plain: bool, controls: Controls, against: str | None = None
) -> AsyncIterator[None]:
    """Show the run or comparison `name` until the block ends. Both ways read the database, as a watcher would."""
    if not plain and can_show(console):
        from evo.tui.screen import show_screen

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
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(FIRST_LINES_SECONDS)
    from evo.cli.lines import print_lines

    await print_lines(db, name, console, against, began)
