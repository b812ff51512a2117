"""What runs, shown while it runs: the screen on a terminal, else a line for every arm now and then.

Either is loaded when it is shown: both draw on everything that a comparison has to tell, which takes longer to import
than a short run to search.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from evo.cli.options import arguments_for
from evo.tui.detection import can_show

if TYPE_CHECKING:
    from evo.config.run import RunConfig
    from evo.tui.screen import Controls, LiveScreen

FIRST_LINES_SECONDS = 5.0


class Live:
    """How a run is shown. screen: None where lines are printed."""

    def __init__(self, console: Console, screen: LiveScreen | None) -> None:
        self._console, self._screen = console, screen

    @contextlib.asynccontextmanager
    async def showing(self, db: str, name: str, controls: Controls, against: str | None = None) -> AsyncIterator[None]:
        """Show the run or comparison `name` until the block ends. Both ways read the database, as a watcher would."""
        if self._screen is not None:
            self._screen.watch(db, name, controls, against)
            yield
            return
        self._console.print(
            f"{name} begins; another terminal can look on: evo watch {arguments_for(name, db)}",
            soft_wrap=True, markup=False,
        )  # fmt: skip
        lines = asyncio.create_task(_lines(db, name, self._console, against))
        try:
            yield
        finally:
            lines.cancel()
            await asyncio.gather(lines, return_exceptions=True)


@contextlib.asynccontextmanager
async def open_live(console: Console, plain: bool, loading: str) -> AsyncIterator[Live]:
    """From before anything is loaded: a screen is there at once and says what it waits for."""
    try:
        if plain or not can_show(console):
            yield Live(console, None)
            return
        from evo.tui.screen import open_screen

        async with open_screen(console, loading) as screen:
            yield Live(console, screen)
    finally:
        _leave_closed_terminal()


def say_loading(configs: Sequence[RunConfig]) -> str:
    """Which policies and problems are loaded, in a few words."""
    policies = list(dict.fromkeys(config.policy for config in configs))
    problems = list(dict.fromkeys(name for config in configs for name in config.problems))
    shown = [", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") for names in
             (policies, problems)]  # fmt: skip
    return f"loading {shown[0]} for {shown[1]}"


def _leave_closed_terminal() -> None:
    """What is still to be said goes nowhere, where the terminal is gone: writing to it is an error."""
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    gone = [descriptor for descriptor, events in poll.poll(0) if events & (select.POLLERR | select.POLLHUP)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in gone:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


async def _lines(db: str, name: str, console: Console, against: str | None) -> None:
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(FIRST_LINES_SECONDS)
    from evo.cli.lines import print_lines

    await print_lines(db, name, console, against, began)
