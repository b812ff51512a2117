"""The screen beside a search, or by itself: one thread asks the database, one paints and reads keys, and the event loop
of the search is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Protocol

from rich.console import Console

from evo.monitor.snapshot import Snapshot
from evo.tui.frame import draw_frame
from evo.tui.terminal import Terminal
from evo.tui.view import View, press_key
from evo.tui.watcher import Watcher

REFRESH_SECONDS = 0.25
FULL_SECONDS = 15.0
"""After so long every line is sent again, should something else have written to the terminal."""
FAULT_SECONDS = 10.0
"""A database that does not answer for so long has gone away."""
CLOCK_SECONDS = 1.2


class Controls(Protocol):
    """What a live search lets its screen do. Called on the event loop that the screen was opened on."""

    paused: bool

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...


class Screen:
    """Paints a watcher's snapshots and obeys keys, in a thread of its own.

    act: called from that thread with "stop", "pause" or "resume" in a live search; None where it only looks on
    """

    def __init__(
        self,
        watcher: Watcher,
        terminal: Terminal,
        *,
        act: Callable[[str], None] | None = None,
        paused: bool = False,
    ) -> None:
        self.watcher, self.terminal = watcher, terminal
        self.view = View(live=act is not None, paused=paused)
        self.left = threading.Event()
        self.on_left: Callable[[], None] = lambda: None
        self.crash: BaseException | None = None
        self.painted = 0
        self._act = act
        self._held: Snapshot | None = None
        self._page = 10
        self._last: object = None
        self._painted_snapshot: Snapshot | None = None
        self._full = self._painted_at = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        watcher.changed = terminal.wake

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self.terminal.wake()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        try:
            self.refresh()
            while not self._over.is_set():
                due = time.monotonic() + REFRESH_SECONDS
                for key in self.terminal.keys(REFRESH_SECONDS):
                    self.press(key)
                if self.watcher.failure is not None:
                    self._leave()
                self.refresh()
                # a new snapshot or a flood of keys may wake it early, but not so often that it costs
                if time.monotonic() < due:
                    time.sleep(0.02)
        except BaseException as error:  # noqa: B036 - handed on to whoever opened the screen
            self.crash = error
            self._leave()

    def press(self, key: str) -> None:
        """Do what a key does."""
        snapshot = self._held or self.watcher.snapshot
        self.view, action = press_key(self.view, key, snapshot, self._page)
        if action == "repaint":
            self.terminal.repaint()
            self._last = None
        elif action == "quit":
            if self._act is None:
                self._leave()
            elif not self.view.stopping:
                self.view = replace(self.view, stopping=True, paused=False)
                self._act("stop")
        elif action == "pause":
            self._pause(snapshot)
        arms = snapshot.arms
        arm = arms[min(self.view.arm, len(arms) - 1)].name if self.view.detail and arms else None
        self.watcher.look(self.view.problem, arm)

    def _pause(self, snapshot: Snapshot) -> None:
        if self._act is None:
            self._held = None if self._held is not None else snapshot
            self.view = replace(self.view, paused=self._held is not None)
        elif not self.view.stopping:
            self.view = replace(self.view, paused=not self.view.paused)
            self._act("pause" if self.view.paused else "resume")

    def refresh(self) -> None:
        """Paint, where anything is different from what was painted last."""
        snapshot = self.watcher.snapshot
        if self._held is not None and not (self.view.detail and snapshot.details):
            snapshot = self._held
        elif self._held is not None:
            snapshot = replace(self._held, details=snapshot.details)
        now = time.time()
        size = self.terminal.size()
        seen = (id(snapshot) if self._held is None else id(self._held), snapshot.details, self.view, size)
        if time.monotonic() - self._full > FULL_SECONDS:
            self._full = time.monotonic()
            self.terminal.repaint()
            self._last = None
        # the clock alone waits a little longer than a snapshot takes to come, so that the two are painted together
        if seen == self._last and now - self._painted_at < CLOCK_SECONDS:
            return
        made = draw_frame(snapshot, self.view, *size, now)
        self._page, self._last, self._painted_at = made.page, seen, now
        self._painted_snapshot = snapshot  # kept, so that no other snapshot gets its id
        self.terminal.paint(made, *size)
        self.painted += 1

    def _leave(self) -> None:
        self._over.set()
        self.left.set()
        self.on_left()


class ShownScreen:
    """A screen that is up."""

    def __init__(self, screen: Screen, watcher: Watcher, gone: asyncio.Event) -> None:
        self._screen, self._watcher, self._gone = screen, watcher, gone

    @property
    def snapshot(self) -> Snapshot:
        """What it shows."""
        return self._watcher.snapshot

    async def left(self) -> None:
        """Returns when the viewer has asked to leave, which a screen without controls does by itself. Raises
        DatabaseUnavailable where the database went away for good."""
        await self._gone.wait()
        if self._watcher.failure is not None:
            raise self._watcher.failure
        if self._screen.crash is not None:
            raise self._screen.crash


@contextlib.asynccontextmanager
async def show_screen(
    db: str, name: str, console: Console, *, controls: Controls | None = None, against: str | None = None
) -> AsyncIterator[ShownScreen]:
    """Show the comparison, or the run, `name` of the database `db` on the console's terminal until the block ends.

    controls: the live search of this process: p holds it back, q asks it to end. Without, p holds the picture and q
        ends `ShownScreen.left`.
    The terminal must be one that `can_show`; afterwards it is as before, however the block ends. A database that stops
    answering is shown; without controls it ends the screen. Raises DatabaseUnavailable, UnknownRun and BadInput at the
    start.
    """
    loop = asyncio.get_running_loop()
    patience = FAULT_SECONDS if controls is None else None
    watcher = await asyncio.to_thread(Watcher, db, name, against, patience=patience)

    def act(what: str) -> None:
        assert controls is not None
        done = {"stop": controls.stop, "pause": controls.pause, "resume": controls.resume}[what]
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(done)

    gone = asyncio.Event()
    try:
        terminal = Terminal(console)
        with terminal.entered():
            screen = Screen(
                watcher,
                terminal,
                act=None if controls is None else act,
                paused=controls is not None and controls.paused,
            )

            def left() -> None:
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(gone.set)

            screen.on_left = left
            watcher.start()
            screen.start()
            try:
                yield ShownScreen(screen, watcher, gone)
            finally:
                screen.close()
                if screen.crash is not None and controls is not None:
                    warnings.warn(f"the live screen failed, the search did not: {screen.crash!r}", stacklevel=2)
    finally:
        await asyncio.to_thread(watcher.close)
