"""The terminal itself: what is painted, and that it is given back as it was, on a real pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from io import StringIO
from pathlib import Path

import pytest
import screen_samples as samples
from rich.console import Console

from evo.tui.detection import can_show
from evo.tui.frame import draw_frame
from evo.tui.painter import Painter
from evo.tui.view import View

ROOT = Path(__file__).resolve().parents[3]
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


def console(**options):
    return Console(file=StringIO(), force_terminal=True, width=80, height=24, **options)


def painted(painter, view, **changes):
    return painter.changes(draw_frame(samples.finished(), view, 80, 24, samples.NOW), 80, 24)


def test_only_lines_that_changed_are_sent():
    painter = Painter(console(color_system="truecolor"))
    first = painted(painter, View(problem=1))
    assert first.count(";1H") == 24 and "\x1b[2J" in first
    assert painted(painter, View(problem=1)) == ""
    second = painted(painter, View(problem=2))
    assert second.count(";1H") == 2 and "\x1b[2J" not in second  # the row that was left and the one chosen
    painter.forget()
    again = painted(painter, View(problem=2))
    assert again.count(";1H") == 24 and "\x1b[2J" not in again


def test_another_size_begins_anew():
    painter = Painter(console(color_system="truecolor"))
    painted(painter, View())
    shown = painter.changes(draw_frame(samples.finished(), View(), 100, 30, samples.NOW), 100, 30)
    assert "\x1b[2J" in shown and shown.count(";1H") == 30


def test_arms_have_colours_where_there_are_any_and_none_with_no_color():
    assert "38;2;230;159;0" in painted(Painter(console(color_system="truecolor")), View())
    bare = painted(Painter(console(color_system="truecolor", no_color=True)), View())
    assert "38;2" not in bare and "\x1b[1m" in bare and "●" in bare
    assert "\x1b[1m" not in painted(Painter(console(color_system=None)), View())


def test_a_terminal_without_unicode_gets_ascii(monkeypatch):
    monkeypatch.setattr(Console, "encoding", "ascii")
    shown = painted(Painter(console(color_system=None)), View(panel="curves"))
    assert shown.isascii() and "maze:hard" in shown and "100%" in shown


def test_what_cannot_show_a_screen():
    assert not can_show(console())  # said to be one, but a file
    assert not can_show(Console(file=StringIO()))


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
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
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

    def until(self, *texts, seconds=40):
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

    def ended(self, seconds=20):
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read(0.2)
        return self.process.wait(1)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def program():
    programs = []

    def start(*arguments, **options):
        programs.append(Program(*arguments, **options))
        return programs[-1]

    yield start
    for one in programs:
        one.close()


SCRIPT = """
import os, sys, time
sys.path.insert(0, {here!r})
import screen_samples as samples
from rich.console import Console
from evo.tui.frame import draw_frame
from evo.tui.terminal import Terminal
from evo.tui.view import View
terminal = Terminal(Console())
with terminal.entered():
    terminal.paint(draw_frame(samples.finished(), View(), *terminal.size(), samples.NOW), *terminal.size())
    {body}
print("after")
"""


def script(body):
    return SCRIPT.format(here=str(Path(__file__).parent), body=body)


def given_back(program):
    """The cursor is there, the main screen too, and the modes are those from before."""
    seen = program.everything
    left = seen.rindex(LEFT)
    assert seen.rindex(ENTERED) < left
    assert b"\x1b[?25h" in seen and b"\x1b[?7h" in seen
    assert program.modes() == program.before
    return seen[left:]


def test_keys_arrive_at_once_and_the_terminal_is_given_back(program):
    one = program("-c", script("keys = []\n    while 'q' not in keys: keys += terminal.keys(5)\n    print(keys)"))
    one.until(b"maze:hard")
    assert not one.modes()[3] & (termios.ECHO | termios.ICANON)
    one.type(b"\x1b[Aj\x1b")
    time.sleep(0.3)
    one.type(b"q")
    assert one.ended() == 0
    assert b"['up', 'j', 'escape', 'q']" in given_back(one)  # printed while the screen was up, shown afterwards


@pytest.mark.parametrize("body", ["raise ValueError('broken')", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_the_terminal_is_given_back_after_an_exception(program, body):
    one = program("-c", script(body))
    assert one.ended() != 0
    after = given_back(one)
    if "broken" in body:
        assert b"ValueError: broken" in after


def test_what_is_written_meanwhile_is_held_back(program):
    body = "os.write(2, b'from C'); print('from Python', file=sys.stderr)\n    os.system('echo from a child >&2')"
    one = program("-c", script(body))
    assert one.ended() == 0
    during, after = one.seen[: one.seen.rindex(LEFT)], given_back(one)
    for text in (b"from C", b"from Python", b"from a child"):
        assert text in after and text not in during


def test_suspended_and_continued(program):
    """The kernel does not stop a process whose group nobody watches over, as this one: it goes on at once, and has
    given the terminal back and taken it again all the same."""
    one = program("-c", script("keys = []\n    while 'q' not in keys: keys += terminal.keys(1)"))
    one.until(b"maze:hard")
    one.forget()
    os.kill(one.process.pid, signal.SIGTSTP)
    one.until(LEFT, ENTERED)
    assert one.seen.index(LEFT) < one.seen.index(ENTERED)
    os.kill(one.process.pid, signal.SIGCONT)
    one.type(b"q")
    assert one.ended() == 0
    given_back(one)


@pytest.fixture
def searched(tmp_path, search_with, digits, digits_policy):
    """The address of a database with a finished run named `run`."""
    db = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits("a", target=0.9), digits("b", target=0.9)], digits_policy(), db, iterations=12)
    from islands.db.store import Store

    with Store.open(db) as store:
        store.finish_run(store.run("run").id, "done")
    return db


def test_watching_on_a_terminal(program, searched):
    one = program("-m", "evo", "watch", "run", "--db", searched)
    one.until(b"the run has ended", b"quit")
    one.forget()
    one.resize(40, 130)
    one.until(b"\x1b[2J", b"\x1b[40;1H", b"last improvements")
    for keys, text in (
        (b"?", b"How to read it"),
        (b"x", b"last improvements"),
        (b"\r", b"candidate"),
        (b"\x1b", b"problem"),
    ):
        one.forget()
        one.type(keys)
        one.until(text)
    one.type(b"q")
    assert one.ended() == 0
    given_back(one)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_give_the_terminal_back(program, searched, number):
    one = program("-m", "evo", "watch", "run", "--db", searched)
    one.until(b"the run has ended")
    os.kill(one.process.pid, number)
    assert one.ended() == 130
    given_back(one)


def test_a_database_that_goes_away_is_one_line(program, searched):
    one = program("-c", "import evo.tui.screen as s; s.FAULT_SECONDS = 1.0; from evo.cli import main; "
                  f"main(['watch', 'run', '--db', {searched!r}])")  # fmt: skip
    one.until(b"the run has ended")
    Path(searched.removeprefix("sqlite:///")).unlink()
    assert one.ended() == 2
    after = given_back(one).decode()
    assert "the file is gone" in after and "Traceback" not in after
