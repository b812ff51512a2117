"""`evo` commands as child processes: a search behind its screen, a stage of a pipeline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from problems.child_process import python_path

SHOWN_VARIABLE = "EVO_SHOWN"
"""Set for a search that a screen shows: it prints no progress."""


def can_show(console: Console) -> bool:
    """Whether a screen can be painted: the console and the keys are those of a terminal."""
    if not console.is_terminal or console.is_dumb_terminal:
        return False
    try:
        return os.isatty(console.file.fileno()) and os.isatty(sys.__stdin__.fileno() if sys.__stdin__ else 0)
    except (AttributeError, OSError, ValueError):  # a stream that was replaced or closed
        return False


def is_shown() -> bool:
    """Whether this process is a search that a screen shows."""
    return bool(os.environ.get(SHOWN_VARIABLE))


class CommandProcess:
    """`evo ARGUMENTS`. It has its own session, so that the terminal's signals come to its owner alone, and it ends with
    its owner (evo.cli.end_with_parent).

    last_line: that it wrote to stderr
    """

    def __init__(self, arguments: Sequence[str], settings: Mapping[str, str], *, held: bool = False, **options: Any):
        """settings: for its environment; held: what it prints is kept until `end`; options: of subprocess.Popen"""
        self.last_line = ""
        text: dict[str, Any] = {"encoding": "utf-8", "errors": "replace"}
        self._held = [tempfile.TemporaryFile("w+", **text) for _ in range(2 * held)]  # noqa: SIM115 - stdout, stderr
        if held:
            options["stdout"] = self._held[0]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evo", *arguments],
            env={**os.environ, "PYTHONPATH": python_path(), "EVO_PARENT": str(os.getpid()), **settings},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            **text,
            **options,
        )
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def _pass_on(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.last_line = line.strip() or self.last_line
            (self._held[1] if self._held else sys.stderr).write(line)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def send_signal(self, number: int) -> None:
        """SIGINT is Ctrl-C: the first finishes what is in flight, the second ends at once. Nothing if it has ended."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Its exit code (negative: the signal that killed it)."""
        code = self._process.wait()
        self._reader.join(timeout=1.0)  # a process that it started may still hold the pipe
        return code

    def end(self, *, output: bool = True) -> None:
        """Interrupt it if it still runs, wait for it, and print what was held. output: also its stdout"""
        if self.running:
            self.send_signal(signal.SIGINT)
        code = self.wait()
        for held, stream in list(zip(self._held, (sys.stdout, sys.stderr), strict=False))[0 if output else 1 :]:
            held.seek(0)
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                stream.write(held.read())
                stream.flush()
        if code < 0:
            print(f"evo: the search's process died ({signal.Signals(-code).name})", file=sys.stderr)
