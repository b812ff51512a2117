"""The process that shows a search running in another: `python -m evo.tui.live_process FD`.

FD is a socket. From it come lines of JSON: {"loading": TEXT}, {"watch": {db, name, against, paused}}; its end is the
end of the screen. Into it go {"up": true} before anything is painted, {"act": WHAT} for the viewer's commands to the
search, and {"failed": WHY}.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import signal
import socket
import sys
from typing import Any

from rich.console import Console

from evo.encoding import prepare_streams
from evo.tui.app import ScreenApp, Source
from evo.tui.terminal import silent_input


async def serve(connection: socket.socket) -> int:
    """Show the states that the connection sends until it ends."""
    reader, writer = await asyncio.open_connection(sock=connection)

    def tell(message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            writer.write(json.dumps(message).encode() + b"\n")

    first = await reader.readline()
    if not first:
        return 0
    console = Console(file=sys.__stderr__)
    app = ScreenApp(
        loading=json.loads(first)["loading"], act=lambda what: tell({"act": what}), encoding=console.encoding
    )

    async def obey() -> None:
        while line := await reader.readline():
            message = json.loads(line)
            if "loading" in message:
                app.say_loading(message["loading"])
            else:
                app.watch_source(_opener(**message["watch"]), message["watch"]["paused"])
        app.exit()

    tell({"up": True})
    await writer.drain()
    obeying = asyncio.create_task(obey())
    loading_rest = asyncio.create_task(asyncio.to_thread(_load_the_rest))
    try:
        with silent_input():
            await app.run_async()
    finally:
        obeying.cancel()
        await asyncio.gather(obeying, loading_rest, return_exceptions=True)
        if app.failure is not None:
            tell({"failed": f"{type(app.failure).__name__}: {app.failure}"})
        with contextlib.suppress(OSError):
            await writer.drain()
        await asyncio.to_thread(app.close_source)
    return 0


def _load_the_rest() -> None:
    """Modules needed once there is a run, loaded while the search's process loads its policy."""
    importlib.import_module("evo.tui.watcher")
    importlib.import_module("evo.tui.pages")


def _opener(db: str, name: str, against: str | None, paused: bool) -> Any:
    def opened() -> Source:
        from evo.tui.watcher import Watcher  # as in evo.tui.shown

        return Watcher(db, name, against)

    return opened


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the search decides, and ends the connection
        signal.signal(number, signal.SIG_IGN)
    prepare_streams()
    return asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    sys.exit(main())
