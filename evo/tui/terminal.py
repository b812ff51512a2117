"""The terminal while a screen is shown: its modes, the keys it sends, and painting only what changed.

A frame is compared with the one before, line by line, and only lines that differ are sent, inside one synchronised
update: no flicker, and some hundred bytes a second over a slow connection instead of some ten thousand. (rich's Live
sends every line of the alternate screen every time.) Whatever the process writes to the terminal meanwhile is held
back and shown afterwards, where it would otherwise tear the picture.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from rich.console import Console

from evo.tui.detection import descriptor
from evo.tui.frame import Frame
from evo.tui.keys import decode
from evo.tui.painter import Painter

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # alternate screen, no cursor, no wrapping at the right edge
LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
ESCAPE_SECONDS = 0.05
"""An escape that nothing follows for so long is the key; a sequence comes in one piece, or nearly."""
HELD_BYTES = 64 * 1024


class Terminal:
    """Holds a terminal from `entered` to its end. Painting and reading keys are for one thread, the rest for any."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._file: IO[str] = console.file
        self._lock = threading.RLock()
        self._painter = Painter(console)
        self._keys = _terminal_input()
        self._modes: list[Any] | None = None
        self._out: int | None = None
        self._held: IO[bytes] | None = None
        self._saved: dict[int, int] = {}
        self._inside = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The alternate screen while the block runs; the terminal is as it was before afterwards, whatever happens."""
        stopped = _obey_suspension(self)
        try:
            self._enter()
            yield
        finally:
            self._leave()
            stopped()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def size(self) -> tuple[int, int]:
        """Columns and rows, now."""
        fd = self._out if self._out is not None else descriptor(self._file)
        with contextlib.suppress(OSError, TypeError):
            columns, rows = os.get_terminal_size(fd)  # type: ignore[arg-type]
            if columns and rows:
                return columns, rows
        return self.console.size.width, self.console.size.height

    def paint(self, frame: Frame, width: int, height: int) -> int:
        """Show the frame; returns how many characters that took."""
        with self._lock:
            if not self._inside:
                return 0
            text = self._painter.changes(frame, width, height)
            self._write(text)
            return len(text)

    def repaint(self) -> None:
        """Have the next frame painted in full."""
        self._painter.forget()

    def wake(self) -> None:
        """End a `keys` that waits. From any thread."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b".")

    def keys(self, seconds: float) -> list[str]:
        """The keys pressed by now; waits for one, or for `wake`, for at most so long."""
        read = self._read(seconds)
        pressed, rest = decode(read, final=False)
        while rest:
            more = self._read(ESCAPE_SECONDS)
            following, rest = decode(rest + more, final=not more)
            pressed += following
        return pressed

    def _read(self, seconds: float) -> bytes:
        watched = [self._wake_read, *([self._keys] if self._keys is not None else [])]
        ready, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        if self._keys is None or self._keys not in ready:
            return b""
        try:
            read = os.read(self._keys, 1024)
        except OSError:
            read = b""
        if not read:  # the other end hung up
            self._keys = None
        return read

    def _enter(self) -> None:
        with self._lock:
            self._hold_output()
            if self._keys is not None and _in_foreground(self._keys):
                self._modes = _without_echo(self._keys)
            self._inside = True
            self._painter.forget()
            self._write(ENTER)

    def _leave(self) -> None:
        with self._lock:
            if not self._inside:
                return
            self._inside = False
            with contextlib.suppress(OSError, ValueError):  # a terminal that is gone needs nothing
                self._write(LEAVE)
            if self._keys is not None and self._modes is not None:
                _restore(self._keys, self._modes)
            self._modes = None
            self._let_go()

    def _hold_output(self) -> None:
        """Send stdout and stderr, where they are terminals, to a file; frames go to a copy of the terminal's."""
        fd = descriptor(self._file)
        if fd is None:
            return
        self._file.flush()
        self._out = os.dup(fd)
        self._held = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _let_go
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            if os.isatty(number):
                with contextlib.suppress(OSError, ValueError, AttributeError):
                    stream.flush()
                self._saved[number] = os.dup(number)
                os.dup2(self._held.fileno(), number)

    def _let_go(self) -> None:
        """Give the streams back, and write out what was held."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        for number, saved in self._saved.items():
            os.dup2(saved, number)
            os.close(saved)
        self._saved = {}
        if self._out is not None:
            os.close(self._out)
            self._out = None
        if self._held is not None:
            size = self._held.seek(0, os.SEEK_END)
            self._held.seek(max(0, size - HELD_BYTES))
            held = self._held.read()
            self._held.close()
            self._held = None
            with contextlib.suppress(OSError):
                while held:
                    held = held[os.write(2, held) :]

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._out is None:
            self._file.write(text)
            self._file.flush()
            return
        rest = text.encode(self.console.encoding or "utf-8", "replace")
        while rest:
            rest = rest[os.write(self._out, rest) :]


def _terminal_input() -> int | None:
    """stdin, where it is a terminal that sends keys one by one."""
    try:
        import termios  # noqa: F401 - not there on every system

        fd = sys.stdin.fileno()
        return fd if os.isatty(fd) else None
    except (ImportError, AttributeError, OSError, ValueError):
        return None


def _in_foreground(fd: int) -> bool:
    """A job in the background would be stopped for changing its terminal's modes."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True  # not the terminal that controls us, so there are no jobs on it


def _without_echo(fd: int) -> list[Any]:
    """Keys come at once and unseen, Ctrl-C stays what it is; returns the modes before."""
    import termios

    before = termios.tcgetattr(fd)
    modes = termios.tcgetattr(fd)
    modes[3] &= ~(termios.ECHO | termios.ICANON)
    modes[6][termios.VMIN], modes[6][termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSADRAIN, modes)
    return before


def _restore(fd: int, modes: list[Any]) -> None:
    import termios

    with contextlib.suppress(termios.error, OSError):
        # what was typed and not read was meant for the screen, not for the shell after it
        termios.tcsetattr(fd, termios.TCSAFLUSH, modes)


def _obey_suspension(terminal: Terminal) -> Callable[[], None]:
    """Ctrl-Z gives the terminal back before the process stops, and takes it again when it goes on. Returns what ends
    that. Only the main thread can; elsewhere nothing is done."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGTSTP"):
        return lambda: None
    before = signal.getsignal(signal.SIGTSTP)
    if before is not signal.SIG_DFL:
        return lambda: None

    def suspend(number: int, stack: Any) -> None:
        terminal._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, suspend)
        terminal._enter()
        terminal.wake()

    def stopped() -> None:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    signal.signal(signal.SIGTSTP, suspend)
    return stopped
