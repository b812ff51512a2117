"""A search as the child process of its screen: the same command with --plain. What it prints is kept, and shown when
the screen has closed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence

from rich.console import Console

SHOWN = "EVO_SHOWN"
"""Set for a search that a screen shows: it prints no progress, and is interrupted when its stdin ends."""


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
    return bool(os.environ.get(SHOWN))


def obey_screen() -> None:
    """Interrupt this process, as Ctrl-C does, when the screen that shows it is gone."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


class SearchProcess:
    """The child. It has its own session, so that the terminal's signals come to the screen alone."""

    def __init__(self, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        """arguments: of `evo`; settings: for its environment"""
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        size = shutil.get_terminal_size()
        environment = {**os.environ, SHOWN: "1", "COLUMNS": str(size.columns), "LINES": str(size.lines), **settings}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "evo", *arguments],
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def interrupt(self) -> None:
        """Ctrl-C: the first finishes what is in flight, the second ends at once."""
        if self.running:
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Its exit code; 1 if a signal ended it."""
        code = self._process.wait()
        return code if code >= 0 else 1

    def end(self, *, output: bool = True) -> None:
        """Interrupt it if it still runs, wait for it, and print what it printed. output: also its stdout"""
        assert self._process.stdin is not None
        self._process.stdin.close()  # obey_screen
        code = self._process.wait()
        for held, stream in [(self._output, sys.stdout)] * output + [(self._errors, sys.stderr)]:
            held.seek(0)
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                stream.write(held.read().decode("utf-8", "replace"))
                stream.flush()
            held.close()
        if code < 0:
            print(f"evo: the search's process died ({signal.Signals(-code).name})", file=sys.stderr)
