"""The process of one stage: `python -m evo.cli.stage_process PARENT DESCRIPTOR ARGUMENTS...` is `evo ARGUMENTS...` that
ends with its parent, and that writes its last line on stderr to DESCRIPTOR, a pipe, as well."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from evo.cli import invoke, print_traceback
from evo.errors import INTERRUPTED

PR_SET_PDEATHSIG = 1
LONGEST = 1000
"""Characters of the last line at most: the pipe must hold all of it before the parent reads."""


def main(arguments: Sequence[str]) -> int:
    parent, descriptor, *rest = arguments
    _end_with_parent(int(parent))
    _enable_interrupts()
    stderr = LastLineStream(sys.stderr)
    sys.stderr = stderr
    sys.argv = ["evo", *rest]
    try:
        return invoke(rest)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:
        print_traceback(*sys.exc_info())
        return 1
    finally:
        os.write(int(descriptor), stderr.last_line[:LONGEST].encode())


def _enable_interrupts() -> None:
    """Let Ctrl-C end this process, even if its parent ignores or blocks the signal, as a cluster's processes do."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


class LastLineStream:
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


def _end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends. This works on Linux; elsewhere the stage continues, which
    only costs time. Whatever a stage has written survives a kill at any moment."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
