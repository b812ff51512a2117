"""Processes of commands: the search that a screen shows, which is its parent, and the command of a pipeline's stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console

from problems.child_process import python_path

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


class CommandProcess:
    """`evo ARGUMENTS` as a child. It has its own session, so that the terminal's signals come to its owner alone, and
    it is killed when its owner ends (evo.cli.end_with_parent).

    last_line: that it wrote to stderr
    """

    def __init__(
        self,
        arguments: Sequence[str],
        settings: Mapping[str, str],
        on_line: Callable[[str], object] | None = None,
        **options: Any,
    ) -> None:
        """settings: for its environment; on_line: gets what it prints, from another thread; options: of
        subprocess.Popen"""
        self.last_line = ""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evo", *arguments],
            env={**os.environ, "PYTHONPATH": python_path(), "EVO_PARENT": str(os.getpid()), **settings},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
            **{**options, **({"stdout": subprocess.PIPE} if on_line else {})},
        )
        self._readers = [threading.Thread(target=self._pass_on, daemon=True)]
        if on_line is not None:
            assert self._process.stdout is not None
            lines = (line.rstrip("\n") for line in self._process.stdout)
            self._readers.append(threading.Thread(target=lambda: deque(map(on_line, lines), 0), daemon=True))
        for reader in self._readers:
            reader.start()

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.last_line = line.strip() or self.last_line
            sys.stderr.write(line)

    def send_signal(self, number: int) -> None:
        """SIGINT is Ctrl-C: the first finishes what is in flight, the second ends at once. Nothing if it has ended."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code (negative: the signal that killed it)."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join(timeout=1.0)  # a process that it started may still hold the pipe
        return code
