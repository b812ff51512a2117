"""The terminal that the screen is painted on: whether there is one, and how it is given back as it was."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from rich.console import Console

try:
    import termios
except ImportError:  # not there on every system
    termios = None  # type: ignore[assignment]


def can_show(console: Console) -> bool:
    """Whether the console is a terminal that a screen can be painted on."""
    if not console.is_terminal or console.is_dumb_terminal:
        return False
    fd = descriptor(console.file)
    return fd is not None and os.isatty(fd)


def descriptor(file: IO[str]) -> int | None:
    """The file's descriptor; None if it has none, as a stream that was replaced or closed."""
    try:
        return file.fileno()
    except (AttributeError, OSError, ValueError):
        return None


HELD_BYTES = 64 * 1024
LEAVE = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?2048l\x1b[<u"
    "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)
"""No mouse, no pasted brackets, plain keys, plain colours, wrapping, the cursor, the main screen."""


class GivenTerminal:
    """The modes of the terminal that keys come from, to be put back."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._input = _terminal_input()
        self._modes = _modes(self._input)

    def restore(self, *, painted: bool) -> None:
        """Restore the modes. painted: the painting process has not cleaned up."""
        if painted:
            with contextlib.suppress(OSError):
                os.write(self._output, LEAVE.encode())
        changed = self._modes is not None and _modes(self._input) != self._modes
        if changed and termios is not None and self._input is not None and self._modes is not None:
            with contextlib.suppress(termios.error, OSError):
                # unread input was meant for the screen, not for the shell after it
                termios.tcsetattr(self._input, termios.TCSAFLUSH, self._modes)


@contextlib.contextmanager
def held_output() -> Iterator[None]:
    """Send stdout and stderr, if they are terminals, to a file while the block runs; then show its end on stderr."""
    saved: dict[int, int] = {}
    with tempfile.TemporaryFile() as held:
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            if os.isatty(number):
                _flush(stream)
                saved[number] = os.dup(number)
                os.dup2(held.fileno(), number)
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            for number, fd in saved.items():
                os.dup2(fd, number)
                os.close(fd)
            size = held.seek(0, os.SEEK_END)
            held.seek(max(0, size - HELD_BYTES))
            rest = held.read()
            with contextlib.suppress(OSError):
                while rest:
                    rest = rest[os.write(2, rest) :]


@contextlib.contextmanager
def silent_input() -> Iterator[None]:
    """If stdin is not a terminal, nothing: what reads keys would take the end of a file for a key that is held down."""
    if _terminal_input() is not None or descriptor(sys.stdin) != 0:
        yield
        return
    before = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        for fd in (before, reading, writing):
            os.close(fd)


def _flush(stream: IO[str]) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        stream.flush()


def _terminal_input() -> int | None:
    """stdin, if it is a terminal that sends keys one by one."""
    fd = descriptor(sys.stdin)
    return fd if fd is not None and os.isatty(fd) else None


def _modes(fd: int | None) -> list[Any] | None:
    if fd is None or termios is None:
        return None
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None
