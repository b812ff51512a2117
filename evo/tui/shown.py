"""A screen that only looks on, in this process: what `evo watch` shows."""

from __future__ import annotations

import asyncio
import os
import signal

from rich.console import Console

from evo.errors import INTERRUPTED
from evo.tui.app import ScreenApp, Source
from evo.tui.terminal import GivenTerminal, descriptor, silent_input

FAULT_SECONDS = 10.0
"""A database that does not answer for so long has gone away."""

# everything else here expects Ctrl-C as a signal; terminals with extended protocols would send a key
os.environ.setdefault("TEXTUAL_ALLOW_SIGNALS", "1")
os.environ.setdefault("TEXTUAL_DISABLE_KITTY_KEY", "1")


async def show(db: str, name: str, console: Console, against: str | None = None) -> int:
    """Show the comparison, or the run, `name` of the database `db` on the console's terminal until the viewer leaves;
    the exit code, 130 after a signal. The terminal is then as it was before.

    A database that stops answering is shown, and after FAULT_SECONDS raised as DatabaseUnavailable. Raises
    DatabaseUnavailable, UnknownRun and BadInput at the start.
    """

    def opened() -> Source:
        from evo.tui.watcher import Watcher  # which reads the database, and takes longer to load than to open

        return Watcher(db, name, against, patience=FAULT_SECONDS)

    return await run(ScreenApp(opened, loading=f"reading {name}"), console)


async def run(app: ScreenApp, console: Console) -> int:
    """Run the app until it ends or a signal comes; the exit code. Raises what made it fail."""
    loop = asyncio.get_running_loop()
    code = [0]

    def end() -> None:
        code[0] = INTERRUPTED
        app.exit()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, end)
    fd = descriptor(console.file)
    terminal = None if fd is None else GivenTerminal(fd)
    clean = False
    try:
        with silent_input():
            await app.run_async()
        clean = app.return_code in (None, 0)
    finally:
        if terminal is not None:
            terminal.restore(painted=not clean)
        for number in signals:
            loop.remove_signal_handler(number)
        await asyncio.to_thread(app.close_source)
    if app.failure is not None:
        raise app.failure
    return code[0] or app.return_code or 0
