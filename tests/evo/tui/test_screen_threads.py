"""The screen and the watcher behind it, with a terminal that only remembers."""

import asyncio
import threading
import time
from dataclasses import replace
from io import StringIO

import pytest
import screen_samples as samples
from rich.console import Console

from evo.tui.screen import Screen, show_screen
from evo.tui.watcher import Watcher
from islands.db.store import Store
from islands.errors import DatabaseUnavailable, UnknownRun


class Remembered:
    """A terminal of 80x24 that is painted on, woken, and given keys."""

    def __init__(self):
        self.frames, self.pressed, self.repainted, self.columns = [], [], 0, 80
        self._woken = threading.Event()

    def size(self):
        return self.columns, 24

    def paint(self, frame, width, height):
        self.frames.append(frame.text())

    def repaint(self):
        self.repainted += 1

    def wake(self):
        self._woken.set()

    def keys(self, seconds):
        self._woken.wait(min(seconds, 0.02))
        self._woken.clear()
        pressed, self.pressed = self.pressed, []
        return pressed


class Fixed:
    """A watcher of one snapshot."""

    def __init__(self, snapshot):
        self.snapshot, self.failure, self.looked = snapshot, None, []

    def look(self, problem, arm):
        self.looked.append((problem, arm))


def opened(snapshot=None, **options):
    watcher, terminal = Fixed(snapshot or replace(samples.running(), heard=time.time())), Remembered()
    return Screen(watcher, terminal, **options), watcher, terminal


def test_nothing_is_painted_twice():
    screen, watcher, terminal = opened(samples.finished())
    for _ in range(5):
        screen.refresh()
    assert len(terminal.frames) == 1
    screen.press("down")
    screen.refresh()
    watcher.snapshot = samples.running()
    screen.refresh()
    terminal.columns = 100
    screen.refresh()
    assert len(terminal.frames) == 4 and terminal.frames[3].split("\n")[1] != terminal.frames[2].split("\n")[1]
    screen.press("ctrl+l")
    screen.refresh()
    assert len(terminal.frames) == 5 and terminal.repainted >= 1


def test_the_watcher_is_told_what_was_chosen():
    screen, watcher, _ = opened()
    for key in ("down", "enter", "right", "escape"):
        screen.press(key)
    assert watcher.looked == [(1, None), (1, "base"), (1, "grpo"), (1, None)]


def test_a_held_picture_stays_while_the_board_goes_on():
    screen, watcher, terminal = opened()
    screen.press("p")
    screen.refresh()
    watcher.snapshot = replace(watcher.snapshot, name="later")
    screen.refresh()
    assert "picture held" in terminal.frames[-1] and "later" not in terminal.frames[-1]
    screen.press("p")
    screen.refresh()
    assert "later" in terminal.frames[-1]


def test_a_live_search_is_paused_and_stopped_once():
    acted = []
    screen, _, terminal = opened(act=acted.append)
    for key in ("p", "p", "p", "q", "q", "p"):
        screen.press(key)
    assert acted == ["pause", "resume", "pause", "stop"] and not screen.left.is_set()
    screen.refresh()
    assert "stopping" in terminal.frames[-1]


def test_q_leaves_a_screen_that_only_looks_on():
    screen, _, terminal = opened()
    left = []
    screen.on_left = lambda: left.append(True)
    screen.start()
    terminal.pressed = ["q"]
    assert screen.left.wait(5) and left == [True]
    screen.close()


def test_a_fault_of_the_screen_is_handed_on(monkeypatch):
    screen, _, _ = opened()
    monkeypatch.setattr("evo.tui.screen.draw_frame", lambda *_: 1 / 0)
    screen.start()
    assert screen.left.wait(5) and isinstance(screen.crash, ZeroDivisionError)
    screen.close()


@pytest.fixture
def db(tmp_path, search_with, digits, digits_policy):
    address = f"sqlite:///{tmp_path}/evo.db"
    search_with([digits("a"), digits("b")], digits_policy(), address, iterations=5)
    return address


def wait_for(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("evo.tui.watcher.POLL_SECONDS", 0.02)


def test_the_watcher_keeps_up(db, quick):
    watcher = Watcher(db, "run")
    snapshots = []
    watcher.changed = lambda: snapshots.append(watcher.snapshot)
    watcher.start()
    try:
        with Store.open(db) as store:
            store.finish_run(store.run("run").id, "done")
        wait_for(lambda: watcher.snapshot.ended)
        watcher.look(1, "run")
        wait_for(lambda: (1, "run") in watcher.snapshot.details)
    finally:
        watcher.close()
    count = len(snapshots)
    time.sleep(0.1)
    assert len(snapshots) == count > 1


def test_a_database_that_comes_back_and_one_that_does_not(db, quick, monkeypatch):
    watcher = Watcher(db, "run", patience=0.5)
    poll = watcher._poller.poll

    def gone(now=None):
        raise DatabaseUnavailable("postgresql://h: the server closed the connection")

    monkeypatch.setattr(watcher._poller, "poll", gone)
    watcher.start()
    try:
        wait_for(lambda: "closed the connection" in watcher.snapshot.fault)
        monkeypatch.setattr(watcher._poller, "poll", poll)
        wait_for(lambda: not watcher.snapshot.fault)
        assert watcher.failure is None
        monkeypatch.setattr(watcher._poller, "poll", gone)
        wait_for(lambda: watcher.failure is not None)
        assert isinstance(watcher.failure, DatabaseUnavailable)
    finally:
        watcher.close()


def test_a_live_screen_outlasts_its_database(db, quick, monkeypatch):
    watcher = Watcher(db, "run")
    monkeypatch.setattr(watcher._poller, "poll", lambda: (_ for _ in ()).throw(DatabaseUnavailable("gone")))
    watcher.start()
    wait_for(lambda: watcher.snapshot.fault == "gone")
    assert watcher.failure is None
    watcher.close()


class Search:
    paused = False

    def __init__(self):
        self.asked = []

    def pause(self):
        self.asked.append(("pause", threading.get_ident()))

    def resume(self):
        self.asked.append(("resume", threading.get_ident()))

    def stop(self):
        self.asked.append(("stop", threading.get_ident()))


def test_showing_beside_a_loop(db, quick):
    """Controls are called on the loop's own thread, and the console gets its screen back."""
    file, search = StringIO(), Search()

    async def scenario():
        console = Console(file=file, force_terminal=True, width=80, height=24)
        async with show_screen(db, "run", console, controls=search) as shown:
            await asyncio.sleep(0.3)
            assert shown.snapshot.groups == 10
            for key in ("p", "p", "q"):
                shown._screen.press(key)
            await asyncio.sleep(0.05)

    asyncio.run(scenario())
    assert [what for what, _ in search.asked] == ["pause", "resume", "stop"]
    assert {thread for _, thread in search.asked} == {threading.get_ident()}
    assert "10/10 iterations" in file.getvalue() and file.getvalue().endswith("\x1b[?1049l")


def test_a_fault_of_the_screen_does_not_end_the_search(db, monkeypatch):
    monkeypatch.setattr("evo.tui.screen.draw_frame", lambda *_: 1 / 0)

    async def scenario():
        async with show_screen(db, "run", Console(file=StringIO(), force_terminal=True), controls=Search()):
            await asyncio.sleep(0.2)
        return "went on"

    with pytest.warns(UserWarning, match="ZeroDivisionError"):
        assert asyncio.run(scenario()) == "went on"


def test_showing_what_is_not_there_leaves_the_terminal_alone(db):
    file = StringIO()

    async def scenario():
        async with show_screen(db, "nope", Console(file=file, force_terminal=True)):
            raise AssertionError("never shown")

    with pytest.raises(UnknownRun):
        asyncio.run(scenario())
    assert file.getvalue() == ""
