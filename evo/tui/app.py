"""The screen, by Textual: a widget for each part that evo.tui.arrange writes, and the actions of keys, clicks and the
wheel.

Modules that read the database and draw are loaded in a thread, so that the screen appears at once and shows the loading
step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES
from textual.widgets import Input

from evo.errors import INTERRUPTED
from evo.tui.help import HelpScreen
from evo.tui.line import Line, clean, wrap
from evo.tui.palette import DIM, STRONG
from evo.tui.screen import Act
from evo.tui.themes import THEMES, choose_theme
from evo.tui.widgets import FittedColumn, LinesView, RowsView

if TYPE_CHECKING:
    from evo.monitor.snapshot import Snapshot
    from evo.tui.pages import Pages
    from evo.tui.problem_table import ProblemTable

CLOCK_SECONDS = 1.2
"""The clock is repainted after this, if no snapshot came: one comes every second while anything happens."""
LEAST_WIDTH, LEAST_HEIGHT = 40, 8


class Source(Protocol):
    """Keeps a snapshot current (evo.tui.watcher.Watcher). `changed` is called from any thread."""

    snapshot: Snapshot
    failure: Exception | None
    changed: Callable[[], None]

    def start(self) -> None: ...

    def look(self, problem: int, arm: str | None) -> None: ...

    def close(self) -> None: ...


class ScreenApp(App[None]):
    """act: called with the viewer's commands to a live search; None for a screen that only watches.

    failure: why the source gave up, or the error that broke the screen; None for neither
    """

    CSS = """
    Screen { background: $background; color: $foreground; layout: vertical }
    #body { height: 1fr }
    #left { width: 1fr }
    #side { width: 1fr; margin-left: 2 }
    #search { height: 1; border: none; padding: 0; background: $background; display: none }
    #search:focus { border: none }
    """
    ALLOW_SELECT = False
    AUTO_FOCUS = None

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "leave", priority=False),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("ctrl+l", "repaint"),
        Binding("y", "copy"),
        Binding("e", "export"),
        Binding("t", "change_theme"),
        Binding("p", "hold"),
        Binding("question_mark,h,f1", "help"),
        Binding("tab", "next_panel(1)", priority=True),
        Binding("shift+tab", "next_panel(-1)", priority=True),
        Binding("enter", "view('open')"),
        Binding("escape,backspace", "step_back"),
        Binding("slash", "search", priority=True),  # before the next key, which belongs to the name already
        Binding("u", "view('toggle', 'unsolved')"),
        Binding("d", "view('toggle', 'differing')"),
        Binding("s", "view('next_part')"),
        Binding("o", "view('next_order')"),
        Binding("O", "view('reverse')"),
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "page(-1)"),
        Binding("pagedown,space", "page(1)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
        Binding("left", "view('turn', -1)"),
        Binding("right", "view('turn', 1)"),
        Binding("n", "view('step', 1)"),
        Binding("b", "view('step', -1)"),
    ]

    def __init__(
        self,
        open_source: Callable[[], Source] | None = None,
        *,
        loading: str = "loading",
        act: Callable[[Act], None] | None = None,
        paused: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = choose_theme()
        for name in BUILTIN_THEMES:
            self.unregister_theme(name)
        self.source: Source | None = None
        self.failure: Exception | None = None
        self._open_source, self._loading, self._act = open_source, loading, act
        self._paused, self._now = paused, now
        self._opening: asyncio.Task[None] | None = None
        self._pages: Pages | None = None
        self._held: Snapshot | None = None
        self._painted: Any = None
        self._painted_at = 0.0
        self._search_before = ""

    def compose(self) -> ComposeResult:
        yield LinesView(id="head", fixed=True)
        with Horizontal(id="body"):
            with FittedColumn(id="left"):
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
        """The loading step, until there is a source."""
        self._loading = text
        self.refresh_board()

    def watch_source(self, open_source: Callable[[], Source], paused: bool = False) -> None:
        """Show the source that this opens, in a thread: it may take as long as it takes."""
        self._paused = paused
        self._opening = asyncio.create_task(self._load(open_source))

    async def _load(self, open_source: Callable[[], Source]) -> None:
        loop = asyncio.get_running_loop()

        def loaded() -> tuple[Source, Pages]:
            from evo.tui.pages import Pages  # and with it numpy, SQLAlchemy and all of the read model

            return open_source(), Pages(self._act is not None, self._paused)

        try:
            source, self._pages = await asyncio.to_thread(loaded)
        except Exception as error:  # the caller prints it: a mistyped name is one line, not a picture
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
        """Close the source. Blocks until its thread has ended."""
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
        """Show the current state, if that differs from the picture."""
        if not self.is_running:
            return
        width, height = self.size
        if self.source is None or self._pages is None:
            loading = wrap(f"{self._loading} …", max(10, width - 2), height, words=True)
            waiting = [
                Line(width).add("evo", STRONG),
                Line(width),
                *(Line(width).gap(2).add(text, DIM) for text in loading),
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
        # a run that has ended gives the same snapshot again and again; its clock has stopped
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
        head: Sequence[Line],
        curves: Sequence[Line] = (),
        titles: Sequence[Line] = (),
        panel: Sequence[Line] = (),
        side: Sequence[Line] = (),
        footer: Line | None = None,
        left: int = 0,
        table: ProblemTable | None = None,
    ) -> None:
        for id, lines in (("head", head), ("curves", curves), ("titles", titles), ("footer", [footer or Line(1)])):
            view = self.query_one(f"#{id}", LinesView)
            view.fit(len(lines))
            view.show(lines)
        for id, lines in (("panel", panel), ("side", side)):
            view = self.query_one(f"#{id}", LinesView)
            view.appear(bool(lines))
            view.show(lines)
        rows = self.query_one(RowsView)
        rows.appear(table is not None)
        if table is not None:
            rows.show_rows(table.row, len(table.rows))
        self.query_one(FittedColumn).fit(left if side else "1fr")

    def shown_snapshot(self) -> Snapshot | None:
        """The snapshot of the picture: of a held picture the held one, with the answers opened since."""
        if self.source is None:
            return None
        newest = self.source.snapshot
        return newest if self._held is None else replace(self._held, details=newest.details)

    @on(Driver.SignalResume)
    def _paint_after_suspension(self) -> None:
        self.action_repaint()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._do(lambda pages, snapshot: pages.find(snapshot, event.value))

    def on_input_submitted(self) -> None:
        self._close_search()

    def action_search(self) -> None:
        field = self.query_one(Input)
        if self._pages is None or self._pages.view.detail or len(self.screen_stack) > 1:
            return
        if field.display:  # names have slashes too
            field.insert_text_at_cursor("/")
            return
        self._do(lambda pages, snapshot: pages.show_panel(snapshot, "problems"))
        self._search_before = self._pages.view.choice.search
        field.value = self._search_before
        field.display = True
        self.screen.set_focus(field)  # at once: the next key belongs to the name

    def _close_search(self) -> None:
        self.query_one(Input).display = False
        self.set_focus(None)

    def action_step_back(self) -> None:
        if self.query_one(Input).display:
            self._do(lambda pages, snapshot: pages.find(snapshot, self._search_before))
            self._close_search()
        else:
            self._do(lambda pages, snapshot: pages.back(snapshot))

    def action_help(self) -> None:
        if self._pages is not None and len(self.screen_stack) == 1:  # once, however fast the key is pressed
            self.push_screen(HelpScreen(self._pages.view.live, self.action_leave))

    def action_repaint(self) -> None:
        self._painted = None
        self.refresh(repaint=True, layout=True)
        self.refresh_board()

    def action_leave(self) -> None:
        if self._act is None:
            self.exit()
        elif self._pages is None or not self._pages.view.stopping:
            self._do(lambda pages, snapshot: pages.stop(snapshot))
            self._act(Act.STOP)

    def action_interrupt(self) -> None:
        """Ctrl-C that the terminal sends as a key has the same effect as its signal."""
        if self._act is None:
            self.exit(return_code=INTERRUPTED)
        else:
            self._do(lambda pages, snapshot: pages.stop(snapshot))
            self._act(Act.INTERRUPT)

    def action_hold(self) -> None:
        snapshot = self.shown_snapshot()
        if self._pages is None or self._pages.view.stopping or snapshot is None:
            return
        self._do(lambda pages, snapshot: pages.hold(snapshot))
        if self._act is not None:
            self._act(Act.PAUSE if self._pages.view.paused else Act.RESUME)
        else:
            self._held = snapshot if self._pages.view.paused else None
            self._painted = None
            self.refresh_board()

    def action_move(self, by: int) -> None:
        focus = "table" if self._pages is None or self._pages.drawn is None else self._pages.drawn.focus
        if focus == "table":
            self._do(lambda pages, snapshot: pages.move(snapshot, by))
            return
        part = self.query_one(f"#{focus}", LinesView)
        part.scroll_to(y=part.scroll_offset.y + by, animate=False, immediate=True)

    def action_page(self, by: int) -> None:
        parts = (self.query_one("#panel"), self.query_one("#table"))
        shown = next((part for part in parts if part.display), None)
        self.action_move(by * max(1, (shown.size.height if shown else 10) - 1))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The commands of the palette."""
        commands: dict[str, tuple[str, Callable[[], Any]]] = {
            "Theme": ("Dark, light, high contrast, or the terminal's own colours (t)", self.action_change_theme),
            "Copy": ("Copy the answer that is open, else the standings, to the clipboard (y)", self.action_copy),
            "Save a picture": ("Write the screen as an SVG file (e)", self.action_export),
            "Unsolved": (
                "Show only problems that no arm has solved (u)",
                partial(self.action_view, "toggle", "unsolved"),
            ),
            "Differing": (
                "Show only problems on which arms differ (d)",
                partial(self.action_view, "toggle", "differing"),
            ),
            "Order": ("Sort the problems in the next order (o)", partial(self.action_view, "next_order")),
            "Next part": ("Focus the next panel (tab)", partial(self.action_next_panel, 1)),
            "Help": ("Explain every key and word (?)", self.action_help),
            "Stop" if self._act else "Quit": (
                "Stop the search" if self._act else "Leave; the run continues",
                self.action_leave,
            ),
        }
        for title, (what, callback) in commands.items():
            yield SystemCommand(title, what, partial(self.call_later, callback))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that this screen takes before a focused field are the field's in a dialogue over it."""
        return action not in ("search", "next_panel") or len(self.screen_stack) == 1

    def action_copy(self) -> None:
        """Copy the text of the answer that is open; else the arms' standings and the verdict."""
        snapshot = self.shown_snapshot()
        if snapshot is None or self._pages is None or self._pages.drawn is None:
            return
        view = self._pages.view
        arm = snapshot.arms[min(view.arm, len(snapshot.arms) - 1)].name
        found = snapshot.details.get((view.problem, arm)) if view.detail else None
        if found is not None and found.answer is not None:
            self.copy_to_clipboard(found.answer.candidate.text)
            self.notify(f"copied the answer of {clean(arm)}", markup=False)
        else:
            self.copy_to_clipboard("\n".join(line.text() for line in self._pages.drawn.head) + "\n")
            self.notify("copied the standings")

    def action_export(self) -> None:
        """Write the screen as an SVG file, in the current directory or to the viewer's browser."""
        snapshot = self.shown_snapshot()
        if snapshot is None:
            return
        file = re.sub(r"[^\w.-]+", "-", snapshot.name) + ".svg"
        try:
            self.deliver_screenshot(file, str(Path.cwd()))
        except OSError as error:
            self.notify(f"cannot write {file}: {error.strerror or error}", severity="error", markup=False)

    def action_view(self, change: str, *arguments: Any) -> None:
        """A change of the viewer's choices (Pages.change)."""
        self._do(lambda pages, snapshot: pages.change(snapshot, change, *arguments))

    def action_next_panel(self, by: int) -> None:
        if len(self.screen_stack) == 1:
            self._do(lambda pages, snapshot: pages.next_panel(snapshot, by))

    def _do(self, change: Callable[[Pages, Snapshot], None]) -> None:
        """Change the choice, pass it to the source, and show it."""
        snapshot = self.shown_snapshot()
        if self._pages is None or snapshot is None or self.source is None:
            return
        before = self._pages.view
        change(self._pages, snapshot)
        view = self._pages.view
        if (before.problem, before.arm, before.detail) != (view.problem, view.arm, view.detail):
            self.query_one("#panel", LinesView).scroll_to(y=0, animate=False, immediate=True)
            if view.detail and self.query_one(Input).display:
                self._close_search()
        arms = snapshot.arms
        arm = arms[min(view.arm, len(arms) - 1)].name if view.detail and arms else None
        self.source.look(view.problem, arm)
        self.refresh_board()
        if not view.detail:
            place = self._pages.place(snapshot)
            if place is not None:
                self.call_after_refresh(self.query_one(RowsView).bring, place)
