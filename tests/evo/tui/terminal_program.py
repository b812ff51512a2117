"""A program on a pseudo-terminal, for tests of what a real one shows and of how it is given back."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


def without_size():
    """The environment without a terminal's size that a test runner may state: a program would believe it."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


class Program:
    """A Python program on a pseudo-terminal that it controls."""

    def __init__(self, *arguments, rows=24, columns=80):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=self.slave, stdout=self.slave, stderr=self.slave, cwd=ROOT, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**without_size(), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.seen = self.everything = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.1):
        if select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                read = os.read(self.master, 65536)
                self.seen += read
                self.everything += read

    def until(self, *texts, seconds=90):
        """Read until all of these were seen since the last `forget`."""
        end = time.monotonic() + seconds
        while not all(text in self.seen for text in texts):
            assert time.monotonic() < end, self.seen[-3000:]
            assert self.process.poll() is None or select.select([self.master], [], [], 0)[0], self.seen[-3000:]
            self.read()

    def forget(self):
        self.seen = b""

    def type(self, keys):
        os.write(self.master, keys)

    def modes(self):
        return termios.tcgetattr(self.slave)

    def ended(self, seconds=60):
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        before = -1
        while len(self.everything) > before:  # a pseudo-terminal gives a few thousand bytes at a time
            before = len(self.everything)
            self.read(0.2)
        return self.process.wait(1)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def given_back(self):
        """The cursor is there, the main screen too, and the modes are those from before; what was written then."""
        left = self.everything.rindex(LEFT)
        assert self.everything.rindex(ENTERED) < left
        after = self.everything[self.everything.rindex(ENTERED) :]
        assert b"\x1b[?25h" in after and b"\x1b[?7h" in after and b"\x1b[?1003l" in after
        assert self.modes() == self.before
        return re.sub(rb"\x1b\[[0-9;?<]*[a-zA-Z]|[\r\n]+", b" ", self.everything[left:])
