"""The process of one stage: `python -m evo.cli.stage_process PARENT DESCRIPTOR ARGUMENTS...` is `evo ARGUMENTS...` that
ends with its parent, and that tells its last word on stderr through DESCRIPTOR, a pipe."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from evo.cli import invoke, print_traceback

PR_SET_PDEATHSIG = 1
LONGEST = 1000
"""Characters of the last line at most: the pipe must take all of it before anyone reads."""


def main(arguments: Sequence[str]) -> int:
    parent, descriptor, *rest = arguments
    _end_with(int(parent))
    _hear_interrupts()
    heard = Overheard(sys.stderr)
    sys.stderr = heard
    sys.argv = ["evo", *rest]
    try:
        return invoke(rest)
    except KeyboardInterrupt:
        return 130
    except Exception:
        print_traceback(*sys.exc_info())
        return 1
    finally:
        os.write(int(descriptor), heard.last_line[:LONGEST].encode())


def _hear_interrupts() -> None:
    """Ctrl-C ends it whatever its parent does with that: a cluster's processes keep it from themselves."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


class Overheard:
    """A stream that remembers the last line written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""

    def write(self, text: str) -> int:
        self._text = (self._text + text)[-4 * LONGEST :]
        return self._stream.write(text)

    @property
    def last_line(self) -> str:
        lines = [line.strip() for line in self._text.splitlines() if line.strip()]
        return lines[-1].removeprefix("evo: ") if lines else ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent is gone (Linux; elsewhere a stage would continue unwatched,
    which only costs time). Everything that a stage writes survives a kill at any moment."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it was gone before that
        os._exit(1)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
