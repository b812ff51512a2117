"""The screen's widgets, by Textual: one for each part that evo.tui.arrange writes, and a source that is opened beside.

What reads the database and draws is loaded beside it, so that the screen is there at once and says what it waits for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from evo.tui.line import Line, wrap
from evo.tui.palette import DIM, STRONG
from evo.tui.widgets import LinesView, RowsView

if TYPE_CHECKING:
    from evo.monitor.snapshot import Snapshot
    from evo.tui.pages import Pages
    from evo.tui.problem_table import ProblemTable

CLOCK_SECONDS = 1.2
"""A snapshot comes every second while anything goes on, and shows the clock too; this is for when none comes."""
LEAST_WIDTH, LEAST_HEIGHT = 40, 8


class Source(Protocol):
    """Keeps a snapshot current (evo.tui.watcher.Watcher). `changed` is called from any thread."""

    snapshot: Snapshot
    failure: Exception | None
    changed: Callable[[], None]

    def start(self) -> None: ...

    def look(self, problem: int, arm: str | None) -> None: ...

    def close(self) -> None: ...


class Board(App[None]):
    """act: called with "stop", "interrupt", "pause" or "resume" in a live search; None where it only looks on.

    failure: why the source gave up, or what broke the screen; None where neither did
    """

    CSS = """
    Screen { background: ansi_default; color: ansi_default; layout: vertical }
    #body { height: 1fr }
    #left { width: 1fr }
    #side { width: 1fr; margin-left: 2 }
    #search { height: 1; border: none; padding: 0; background: ansi_default; display: none }
    #search:focus { border: none }
    """
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None

    def __init__(
        self,
        open_source: Callable[[], Source] | None = None,
        *,
        loading: str = "loading",
        act: Callable[[str], None] | None = None,
        paused: bool = False,
        encoding: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ansi_color=True)
        self.source: Source | None = None
        self.failure: Exception | None = None
        self._open_source, self._loading, self._act = open_source, loading, act
        self._paused, self._encoding, self._now = paused, encoding, now
        self._opening: asyncio.Task[None] | None = None
        self._pages: Pages | None = None
        self._held: Snapshot | None = None
        self._painted: Any = None
        self._painted_at = 0.0
        self._search_before = ""

    def compose(self) -> ComposeResult:
        LinesView.encoding = self._encoding
        yield LinesView(id="head", fixed=True)
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield LinesView(id="curves", fixed=True)
                yield LinesView(id="titles", fixed=True)
                yield RowsView(id="table")
                yield LinesView(id="panel")
                yield Input(id="search", placeholder="part of a name")
            yield LinesView(id="side")
        yield LinesView(id="footer", fixed=True)

    def on_mount(self) -> None:
        self.query_one(Input).cursor_blink = False
        self.set_interval(CLOCK_SECONDS, self.refresh_board)
        self.refresh_board()
        if self._open_source is not None:
            self.watch_source(self._open_source)

    def say_loading(self, text: str) -> None:
        """What it waits for, until there is a source."""
        self._loading = text
        self.refresh_board()

    def watch_source(self, open_source: Callable[[], Source], paused: bool = False) -> None:
        """Show what this opens, in a thread: it may take as long as it takes."""
        self._paused = paused
        self._opening = asyncio.create_task(self._load(open_source))

    async def _load(self, open_source: Callable[[], Source]) -> None:
        loop = asyncio.get_running_loop()

        def loaded() -> tuple[Source, Pages]:
            from evo.tui.pages import Pages  # and with it numpy, SQLAlchemy and all that a comparison has to tell

            return open_source(), Pages(self._act is not None, self._paused)

        try:
            source, self._pages = await asyncio.to_thread(loaded)
        except Exception as error:  # the caller says it: a mistyped name is one line, not a picture
            self.failure = error
            self.exit()
            return

        def changed() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self.call_later, self.refresh_board)

        self.source = source
        source.changed = changed
        source.start()
        self.call_later(self.refresh_board)

    async def opened(self) -> None:
        """Returns once the source was opened, or could not be."""
        while self._opening is None:
            await asyncio.sleep(0.01)
        await self._opening

    def close_source(self) -> None:
        """End what was opened. Blocks until its thread has ended."""
        if self.source is not None:
            self.source.close()

    def _handle_exception(self, error: Exception) -> None:
        """Ends the screen. Textual would print every local variable, addresses with passwords among them."""
        if self.failure is None:
            self.failure = self._exception = error
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_board)

    def refresh_board(self) -> None:
        """Show what is known now, where it is different from what is shown."""
        if not self.is_running:
            return
        width, height = self.size
        if self.source is None or self._pages is None:
            loading = wrap(f"{self._loading} …", max(10, width - 2), height, words=True)
            waiting = [
                Line(width).add("evo", STRONG),
                Line(width),
                *(Line(width).gap(2).add(one, DIM) for one in loading),
            ]
            self._apply(waiting, footer=Line(width).add("q", STRONG).add(" stop" if self._act else " quit", DIM))
            return
        if self.source.failure is not None and self.failure is None:
            self.failure = self.source.failure
            self.exit()
            return
        snapshot = self.shown_snapshot()
        assert snapshot is not None
        now = self._now()
        seen = (self._held or snapshot, snapshot.details, self._pages.view, width, height)
        # a run that has ended gives the same snapshot again and again; its clock stands
        if self._painted == seen and (snapshot.ended or now - self._painted_at < CLOCK_SECONDS):
            return
        self._painted, self._painted_at = seen, now
        if width < LEAST_WIDTH or height < LEAST_HEIGHT:
            lines = [
                Line(width).add(snapshot.name, STRONG),
                Line(width).add(f"{snapshot.groups:,}/{snapshot.planned:,}"),
            ]
            self._apply([*lines, Line(width).add("too small", DIM)])
            return
        made = self._pages.draw(snapshot, width, height, now)
        self._apply(made.head, made.curves, made.titles, made.panel, made.side, made.footer, made.left, made.table)

    def _apply(
        self,
        head: list[Line],
        curves: list[Line] | None = None,
        titles: list[Line] | None = None,
        panel: list[Line] | None = None,
        side: list[Line] | None = None,
        footer: Line | None = None,
        left: int = 0,
        table: ProblemTable | None = None,
    ) -> None:
        for id, lines in (("head", head), ("curves", curves), ("titles", titles), ("footer", [footer or Line(1)])):
            view = self.query_one(f"#{id}", LinesView)
            _set_height(view, len(lines or ()))
            view.show(lines or ())
        for id, lines in (("panel", panel), ("side", side)):
            view = self.query_one(f"#{id}", LinesView)
            _set_display(view, bool(lines))
            view.show(lines or ())
        rows = self.query_one(RowsView)
        _set_display(rows, table is not None)
        if table is not None:
            rows.show_rows(table.row, len(table.rows))
        width: int | str = left if side else "1fr"
        column = self.query_one("#left")
        if getattr(column, "fitted", None) != width:
            column.fitted = width  # type: ignore[attr-defined]
            column.styles.width = width

    def shown_snapshot(self) -> Snapshot | None:
        """What the picture is of: where it is held, that of then, with the answers that were asked for since."""
        if self.source is None:
            return None
        newest = self.source.snapshot
        return newest if self._held is None else replace(self._held, details=newest.details)


def _set_height(view: LinesView, height: int) -> None:
    """Lay out anew only where the height is another."""
    if getattr(view, "fitted", None) != height:
        view.fitted = height  # type: ignore[attr-defined]
        view.styles.height = height
        view.display = height > 0


def _set_display(view: LinesView, display: bool) -> None:
    """As above: what is set is laid out anew, even where it is what it was."""
    if view.display != display:
        view.display = display
