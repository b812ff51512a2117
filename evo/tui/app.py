"""The screen, by Textual: a widget for each part that evo.tui.draw makes, and the actions of keys and clicks. A thread
reads the database."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Group
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.coordinate import Coordinate
from textual.css.query import NoMatches
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, Static
from textual.worker import WorkerFailed, get_current_worker

from evo.errors import INTERRUPTED
from evo.glossary import SIGNS, WORDS
from evo.progress.model import Progress
from evo.progress.rows import Table, problems_table
from evo.progress.snapshot import Snapshot
from evo.tui import draw
from evo.tui.child import WatchedSearch
from evo.tui.detail import draw_best, draw_detail, tabs
from evo.tui.line import clean
from evo.tui.palette import DARK, STRONG
from islands.errors import DatabaseUnavailable

POLL_SECONDS, _MOST_POLL_SECONDS = 1.0, 15.0
_POLL_SHARE = 0.02
"""Readings that cost more than this share of a core come less often."""
FAULT_SECONDS = 10.0
"""A database that does not answer a screen without a search for so long has gone away."""
WIDE, _TALL, _ROOMY, _LEAST_BODY = 116, 24, 30, 12
_MOST_VERDICTS = 6
"""Lines of verdicts; app.css has the same height."""


class HelpScreen(ModalScreen[None]):
    """The keys, and what every word and sign on the screen means."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "Back")]
    CSS = "HelpScreen VerticalScroll { padding: 0 1; background: $background }"

    def compose(self) -> ComposeResult:
        text = Text("Keys\n", STRONG)
        for binding in ScreenApp.BINDINGS:
            if isinstance(binding, Binding) and binding.tooltip:
                text.append(f"  {(binding.key_display or binding.key):<14}", STRONG).append(f"{binding.tooltip}\n")
        for title, entries in (("Signs", SIGNS), ("Words", WORDS)):
            text.append(f"\n{title}\n", STRONG)
            for word, meaning in entries.items():
                text.append(f"  {word:<14} ", STRONG).append(f"{meaning}\n")
        with VerticalScroll():
            yield Static(text)
        yield Footer()


class AnswerScreen(Screen[None]):
    """The best answer of the selected arm to the selected problem, which ScreenApp fills."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.step_back", "Back"),
        Binding("right", "app.turn(1)", "Next arm"),
        Binding("left", "app.turn(-1)", show=False),
    ]
    CSS = "#tabs { height: 1 } #answer { padding: 0 1 }"

    def compose(self) -> ComposeResult:
        yield Static(id="tabs")
        with VerticalScroll():
            yield Static(id="answer")
        yield Footer()


class ScreenApp(App[int]):
    """The screen of a run or a comparison. It returns the exit code.

    open_progress: called in a thread until it gives the reader; None while the run is not stored yet
    child: the search, if this screen can stop it, which is then the screen's parent process
    failure: why the screen gave up; None if it did not
    """

    TITLE = "evo"
    CSS_PATH = "app.css"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (_TALL, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "leave", "Quit", key_display="q",
                tooltip="leave; a search that this screen began finishes what is in flight; evo resume continues it"),
        Binding("ctrl+c", "interrupt", show=False, priority=True, key_display="ctrl+c",
                tooltip="the same; a second time it ends the search at once"),
        Binding("enter", "answer", "Answer", show=False, key_display="enter",
                tooltip="the best answer to the problem: vector, lineage, changes, picture, prompt; escape goes back"),
        Binding("tab", "panels", "Panels", priority=True, key_display="tab",
                tooltip="from the problems to the panels and back"),
        Binding("slash", "search", "Search", priority=True,
            key_display="/", tooltip="problems by a part of their name, as maze:hard; enter keeps, escape cancels"),
        Binding("u", "choose('unsolved')", "Unsolved", tooltip="only problems that no arm has solved"),
        Binding("d", "choose('differing')", "Differing", tooltip="only problems that some arms solved and not others"),
        Binding("o", "choose('worst_first')", "Worst first",
                tooltip="the least solved problems first, then those of the worst values; again: as given"),
        Binding("question_mark,f1", "help", "Help", key_display="?", tooltip="this page"),
        Binding("escape", "step_back", show=False, tooltip="leave the answer; else remove the filters"),
        Binding("ctrl+z", "suspend_process", show=False, tooltip="back to the shell, until fg"),
    ]  # fmt: skip

    def __init__(
        self,
        open_progress: Callable[[], Progress | None] | None = None,
        *,
        loading: str = "loading",
        child: WatchedSearch | None = None,
        snapshot: Snapshot | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.snapshot, self._open, self._child, self._now = snapshot, open_progress, child, now
        self._loading, self._stopping = loading, 0
        self._choice, self._problem, self._arm = draw.TableChoice(), 0, 0
        self._tabled: Snapshot | None = None  # whose table of problems is `_problems`
        self._problems = Table("", "", (), ())
        self._rows, self._cells = list[int](), dict[tuple[int, int], tuple[str, str]]()
        self._again = threading.Event()
        self._leaving = False
        self._below: Screen[Any] | None = None  # the answer and the help are screens above it

    @property
    def _base(self) -> Screen[Any]:
        return self._below or self.screen

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="arms")
        yield Static(id="verdict")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Static(id="curves")
                yield Static(id="legend")
                yield DataTable(id="problems", cursor_type="row")
                with VerticalScroll(id="best"):
                    yield Static()
                yield Input(id="search", placeholder="part of a name")
            with VerticalScroll(id="side"):
                yield Static(id="panels")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._below = self.screen
        self.query_one(DataTable).focus()
        self.set_interval(POLL_SECONDS, self._refresh_head)
        self.refresh_all()
        if self._open is not None:
            self.run_worker(self._read, thread=True, name="reading")
        if self._child is not None:
            self.run_worker(self._await_child(), name="the search")

    # Reading

    def _read(self) -> None:
        """In a thread: read the database until the screen ends."""
        worker = get_current_worker()
        progress: Progress | None = None
        silent_since: float | None = None
        while not worker.is_cancelled and not self._leaving:
            began, pause = time.thread_time(), POLL_SECONDS
            try:
                if progress is None:
                    assert self._open is not None
                    progress = self._open()
                if progress is not None:
                    _check_file(progress)
                    snapshot = self._poll(progress)
                    silent_since = None
                    cost = (time.thread_time() - began) / _POLL_SHARE
                    pause = max(POLL_SECONDS, min(cost, _MOST_POLL_SECONDS))
                    self._tell(snapshot)
            except DatabaseUnavailable as error:
                silent_since = time.monotonic() if silent_since is None else silent_since
                gone = self._child is None and time.monotonic() - silent_since >= FAULT_SECONDS
                if self.snapshot is not None:
                    self._tell(replace(self.snapshot, fault=str(error)))
                if gone or (self._child is None and self.snapshot is None):
                    return self._fail(error)
            except Exception as error:  # a bug, or the run was deleted: no reason to end a search
                if self._child is None or self.snapshot is None:
                    return self._fail(error)
                self._tell(replace(self.snapshot, fault=f"{type(error).__name__}: {error}"))
            self._again.wait(pause if progress is not None else 0.2)
            self._again.clear()
        return None

    def _poll(self, progress: Progress) -> Snapshot:
        progress.refresh()
        return progress.snapshot_with_best(self._problem, self._arm if self._shows_answer else None)

    def _tell(self, snapshot: Snapshot) -> None:
        with contextlib.suppress(RuntimeError):  # the screen has ended
            self.call_from_thread(self.show_snapshot, snapshot)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        with contextlib.suppress(RuntimeError):
            self.call_from_thread(self.exit, 1)

    async def _await_child(self) -> None:
        assert self._child is not None
        self.exit(await asyncio.to_thread(self._child.wait))

    def _handle_exception(self, error: Exception) -> None:
        """Ends the screen. Textual would print every local variable, addresses with passwords among them."""
        if self.failure is None:
            self.failure = self._exception = error.error if isinstance(error, WorkerFailed) else error  # type: ignore[assignment]
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()

    def exit(self, *arguments: Any, **options: Any) -> None:
        self._leaving = True
        self._again.set()
        super().exit(*arguments, **options)

    # Painting

    @property
    def _shows_answer(self) -> bool:
        return any(isinstance(screen, AnswerScreen) for screen in self.screen_stack)

    def show_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.refresh_all()

    def on_resize(self) -> None:
        self.call_after_refresh(self.refresh_all)

    def _refresh_head(self) -> None:
        if self.snapshot is not None and not self.snapshot.ended:
            self._show_head(self.snapshot)

    def _show_head(self, snapshot: Snapshot) -> None:
        loading = snapshot.ended and self._child is not None and self._child.running
        doing = draw.stopping(snapshot) if self._stopping else "loading" if loading else ""
        width = max(20, self.size.width - 2)
        self._base.query_one("#head", Static).update(draw.head(snapshot, width, self._now(), DARK, doing))

    def refresh_all(self) -> None:
        if not self.is_running or self._below is None:
            return
        snapshot, query = self.snapshot, self._base.query_one
        if snapshot is None:
            query("#head", Static).update(Text(f"evo\n\n  {clean(self._loading)} …"))
            return
        self._show_head(snapshot)
        height, problems = self.size.height, len(snapshot.problems)
        above = 4 + len(snapshot.arms) + min(_MOST_VERDICTS, len(snapshot.verdict))
        has_room = problems == 1 or (snapshot.detail is not None and height >= _ROOMY + problems)
        for name, wanted in (("-best", has_room), ("-tight", height - above < _LEAST_BODY)):
            if self._base.has_class(name) != wanted:  # sizes change
                self._base.set_class(wanted, name)
                self.call_after_refresh(self.refresh_all)
        query("#best Static", Static).update(draw_best(snapshot, DARK))
        width = self.size.width - 2
        query("#arms", Static).update(draw.arms(snapshot, width, DARK))
        query("#verdict", Static).update(draw.verdict_lines(snapshot, DARK, _MOST_VERDICTS))
        query("#verdict").display = snapshot.reference is not None
        self._show_table(snapshot)
        self._show_curves()
        self.call_after_refresh(self._show_curves)  # what is above them may have another height now
        side = query("#side")
        room = max(40, side.size.width - 3) if side.display and side.size.width else width - 2
        query("#panels", Static).update(draw.improvements(snapshot, room, self._now(), DARK))
        self._show_answer()

    def _show_curves(self) -> None:
        if self.snapshot is not None and self.is_running:
            plot, title = self._base.query_one("#curves", Static), Text(draw.curves_title(self.snapshot) + " ", STRONG)
            width, height = plot.size.width or self.size.width - 2, (plot.size.height or 10) - 1
            plot.update(Group(title, draw.curves(self.snapshot, width, height, DARK)))

    def _show_table(self, snapshot: Snapshot) -> None:
        table = self._base.query_one(DataTable)
        width = (table.size.width or self.size.width - 2) - 1
        if self._tabled is not snapshot:
            self._tabled, self._problems = snapshot, problems_table(snapshot)
        rows = draw.chosen_problems(self._problems, snapshot, self._choice)
        cells = draw.problem_rows(self._problems, snapshot, rows, width, DARK)
        titles = draw.problem_titles(self._problems, snapshot, DARK) if rows else [Text("problem")]
        named = [title.plain for title in titles]
        if [column.label.plain for column in table.ordered_columns] != named or rows != self._rows:
            self._rows, self._cells = rows, {}
            with self.prevent(DataTable.RowHighlighted):
                table.clear(columns=True)
                for title in titles:
                    table.add_column(title)
                for texts in cells:
                    table.add_row(*texts)
                if self._problem in rows:
                    table.move_cursor(row=rows.index(self._problem))
        for at, texts in enumerate(cells):
            for column, cell in enumerate(texts):
                shown = (cell.plain, str(cell.style))
                if self._cells.setdefault((at, column), shown) != shown:
                    self._cells[at, column] = shown
                    table.update_cell_at(Coordinate(at, column), cell, update_width=True)
        about = Text("problems ", STRONG).append(f"{self._choice.describe(snapshot, len(rows))}  ", DARK.warn)
        about.append_text(draw.describe_wins(snapshot, DARK) if rows else Text())
        lines = Text("\n").join([about, Text(draw.legend(snapshot), DARK.muted)])
        self._base.query_one("#legend", Static).update(lines)

    def _show_answer(self) -> None:
        snapshot, screen = self.snapshot, self.screen
        if snapshot is None or not isinstance(screen, AnswerScreen) or not snapshot.problems:
            return
        problem = min(self._problem, len(snapshot.problems) - 1)
        with contextlib.suppress(NoMatches):  # not composed yet
            screen.query_one("#tabs", Static).update(tabs(snapshot, problem, self._arm, DARK))
            screen.query_one("#answer", Static).update(draw_detail(snapshot, problem, self._arm, DARK))

    # Actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that this screen takes before a focused field are not of a screen over it."""
        return action not in ("search", "panels") or len(self.screen_stack) == 1

    def action_leave(self, code: int = 0) -> None:
        if self._child is None:
            self.exit(code)
        else:
            self.stop()

    def action_interrupt(self) -> None:
        self.action_leave(INTERRUPTED)

    def stop(self) -> None:
        """The first time the search finishes what is in flight, the second time it ends at once."""
        assert self._child is not None
        self._stopping += 1
        self._child.send_signal(signal.SIGINT)
        self._loading = "stopping"
        self.refresh_all()

    def action_answer(self) -> None:
        if self._rows and not self._shows_answer:
            self._select(self._problem if self._problem in self._rows else self._rows[0])
            self.push_screen(AnswerScreen())
            self._again.set()
            self.call_after_refresh(self._show_answer)

    def action_step_back(self) -> None:
        if self._shows_answer:
            self.pop_screen()
        elif self.query_one("#search").display:
            self._close_search()
            self._choose(search="")
        else:
            self._choose(search="", unsolved=False, differing=False)

    def action_turn(self, by: int) -> None:
        if self.snapshot is not None:
            self._arm = (self._arm + by) % len(self.snapshot.arms)
            self._again.set()
            self._show_answer()

    def action_panels(self) -> None:
        """On a narrow screen the panels take the place of the problems; on a wide one the arrows move them."""
        side, table = self.query_one("#side"), self.query_one(DataTable)
        if self.screen.has_class("-narrow"):
            self.screen.toggle_class("panels")
            (side if self.screen.has_class("panels") else table).focus()
        else:
            (side if table.has_focus else table).focus()
        self.call_after_refresh(self.refresh_all)

    def action_search(self) -> None:
        field = self._base.query_one("#search", Input)
        if field.display:  # names have slashes too
            field.insert_text_at_cursor("/")
        else:
            field.display, field.value = True, self._choice.search
            self._base.set_focus(field)  # at once: the next key belongs to the name

    @on(Input.Changed, "#search")
    def _search(self, event: Input.Changed) -> None:
        self._choose(search=event.value.strip())

    @on(Input.Submitted, "#search")
    def _close_search(self) -> None:
        self._base.query_one("#search", Input).display = False
        self._base.set_focus(self._base.query_one(DataTable))

    def action_choose(self, which: str) -> None:
        self._choose(**{which: not vars(self._choice)[which]})

    def _choose(self, **changes: Any) -> None:
        """Show other problems, or in another order."""
        self._choice = replace(self._choice, **changes)
        if self.snapshot is not None and self.snapshot.problems:
            self._show_table(self.snapshot)

    @on(DataTable.RowHighlighted)
    def _highlight(self, event: DataTable.RowHighlighted) -> None:
        if 0 <= event.cursor_row < len(self._rows):
            self._select(self._rows[event.cursor_row])

    @on(DataTable.RowSelected)
    def _open_row(self, event: DataTable.RowSelected) -> None:
        if 0 <= event.cursor_row < len(self._rows):
            self._select(self._rows[event.cursor_row])
            self.action_answer()

    def _select(self, problem: int) -> None:
        if problem != self._problem:
            self._problem = problem
            self._again.set()
        self._show_answer()

    def action_help(self) -> None:
        if not any(isinstance(screen, HelpScreen) for screen in self.screen_stack):
            self.push_screen(HelpScreen())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The commands of the palette: those of the keys."""
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.description and binding.tooltip:
                yield SystemCommand(binding.description, binding.tooltip, partial(self.run_action, binding.action))


def _check_file(progress: Progress) -> None:
    """An open SQLite file can be read on after it was removed, and never changes again."""
    url = progress.store.url
    if url.drivername == "sqlite" and not Path(str(url.database)).exists():
        raise DatabaseUnavailable(f"{progress.store.address}: the file is gone")


def leave_with_terminal(code: int) -> None:
    """End this process with `code` once its terminal is closed: the thread by which Textual writes ends at its first
    fault, and the screen would wait for that thread for ever."""

    def wait() -> None:
        poll = select.poll()
        poll.register(0, 0)  # that it was hung up is told unasked
        if poll.poll()[0][1] & (select.POLLHUP | select.POLLERR):
            os._exit(code)

    threading.Thread(target=wait, daemon=True).start()


async def run_screen(app: ScreenApp) -> int:
    """Run the app until it ends or a signal comes: TERM and HUP act as Ctrl-C. Returns the exit code. Raises why the
    screen gave up."""
    leave_with_terminal(INTERRUPTED)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # until the loop is closed: closing takes a while
        loop.add_signal_handler(number, app.action_interrupt)
    code = await app.run_async()
    if app.failure is not None:
        raise app.failure
    return code or app.return_code or 0
