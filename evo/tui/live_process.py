"""The process that shows a search of its owner (evo.tui.screen, by problems.child_process).

It receives `loading` (a text), `watch` (database, name, reference arm, whether paused) and `close`. It sends
("up", "") before anything is painted, ("act", COMMAND) for a viewer's command, and ("failed", REASON).
"""

from __future__ import annotations

import asyncio
import importlib
import signal
from collections.abc import Callable
from typing import Any

from evo.encoding import prepare_streams
from evo.tui.app import ScreenApp, Source
from evo.tui.terminal import silent_input
from problems.child_process import Owner


async def serve(owner: Owner) -> None:
    """Show the states that the owner sends until it ends."""
    loop = asyncio.get_running_loop()
    messages: asyncio.Queue[tuple[int, str, Any]] = asyncio.Queue()

    def receive(*message: Any) -> None:
        loop.call_soon_threadsafe(messages.put_nowait, message)

    owner.listen(receive, lambda: receive(0, "close", None))
    _, kind, content = await messages.get()
    if kind == "close":
        return
    app = ScreenApp(loading=content, act=lambda act: owner.tell(("act", act)))

    async def obey() -> None:
        while True:
            _, kind, content = await messages.get()
            if kind == "close":
                return app.exit()
            if kind == "loading":
                app.say_loading(content)
            else:
                db, name, against, paused = content
                app.watch_source(_opener(db, name, against), paused)

    owner.tell(("up", ""))
    obeying = asyncio.create_task(obey())
    loading_rest = asyncio.create_task(asyncio.to_thread(_load_the_rest))
    try:
        with silent_input():
            await app.run_async()
    finally:
        obeying.cancel()
        await asyncio.gather(obeying, loading_rest, return_exceptions=True)
        if app.failure is not None:
            owner.tell(("failed", f"{type(app.failure).__name__}: {app.failure}"))
        await asyncio.to_thread(app.close_source)


def _load_the_rest() -> None:
    """Modules needed once there is a run, loaded while the search's process loads its policy."""
    importlib.import_module("evo.tui.watcher")
    importlib.import_module("evo.tui.pages")


def _opener(db: str, name: str, against: str | None) -> Callable[[], Source]:
    def opened() -> Source:
        from evo.tui.watcher import Watcher  # as in evo.tui.shown

        return Watcher(db, name, against)

    return opened


def main(owner: Owner) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the search decides, and ends the connection
    prepare_streams()
    asyncio.run(serve(owner))
