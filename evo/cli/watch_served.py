"""`evo watch --serve`: the screen in a browser of this machine."""

from __future__ import annotations

import os

from rich.console import Console

from evo.errors import BadInput
from evo.monitor.poller import Poller
from islands.db.store import Store

try:
    from evo.tui.serve import ServedScreen, command_of
except ImportError:
    ServedScreen = None  # type: ignore[assignment,misc]


def serve_screen(name: str, db: str, against: str | None, port: int, console: Console) -> int:
    """Serve until a signal ends it. Raises UnknownRun and BadInput where there is nothing to show or to serve with."""
    if ServedScreen is None:
        raise BadInput("--serve needs textual-serve: pip install 'evo-search[serve]'")
    with Store.open(db, read_only=True) as store:
        Poller(store, name, against)  # a mistyped name is said here, not in the browser

    def say(address: str) -> None:
        console.print(f"{name} is at {address}\nCtrl-C ends it; the run goes on", soft_wrap=True)

    os.environ["EVO_DB"] = db  # for the screens' processes, whose commands others can read: it may hold a password
    try:
        server = ServedScreen(command_of(name, against), f"evo watch {name}", port, say)
    except OSError as error:
        raise BadInput(f"port {port} cannot be had ({error.strerror or error}); --port 0 takes a free one") from None
    server.serve_forever()
    return 0
