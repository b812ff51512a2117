"""The search that a screen shows, which is its parent process."""

from __future__ import annotations

import json
import os
import sys
from typing import IO, TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from evo.progress.model import Progress


def can_show(console: Console) -> bool:
    """Whether a screen can be painted: the console and the keys are those of a terminal."""
    if not console.is_terminal or console.is_dumb_terminal:
        return False
    try:
        return os.isatty(console.file.fileno()) and os.isatty(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (AttributeError, OSError, ValueError):  # a stream that was replaced or closed
        return False


class WatchedSearch:
    """The search of the parent process, for its screen. running: whether it has not ended"""

    def __init__(self, orders: IO[str]) -> None:
        """orders: a line of JSON, [database, name, reference arm], once the search is stored; they end with it"""
        self.running = True
        self._orders, self._process = orders, os.getppid()
        self._stored: tuple[str, str, str | None] | None = None

    def wait(self) -> int:
        """Read the orders until the search ends. Returns 0, the screen's own exit code."""
        for line in self._orders:
            self._stored = tuple(json.loads(line))
        self.running = False
        return 0

    def send_signal(self, number: int) -> None:
        """SIGINT is Ctrl-C: the first finishes what is in flight, the second ends at once. Nothing if it has ended."""
        if os.getppid() == self._process:
            os.kill(self._process, number)

    def open_progress(self) -> Progress | None:
        """The reader; None while nothing is stored."""
        if self._stored is None:
            return None
        from evo.progress.model import Progress
        from islands.store import Store

        db, name, against = self._stored
        return Progress(Store.open(db, read_only=True), name, against)
