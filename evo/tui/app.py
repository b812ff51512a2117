"""The screen itself: a board of widgets (evo.tui.board), and what keys, clicks and the wheel do."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.widgets import Input

from evo.tui.board import Board
from evo.tui.help_screen import HelpScreen
from evo.tui.widgets import LinesView, RowsView


class ScreenApp(Board):
    """A board that can be driven."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "leave", priority=False),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("ctrl+l", "repaint"),
        Binding("p", "hold"),
        Binding("question_mark,h,f1", "help"),
        Binding("tab", "next_panel(1)", priority=True),
        Binding("shift+tab", "next_panel(-1)", priority=True),
        Binding("enter", "open_chosen"),
        Binding("escape,backspace", "step_back"),
        Binding("slash", "search", priority=True),  # before the next key, which belongs to the name already
        Binding("u", "narrow('unsolved')"),
        Binding("d", "narrow('differing')"),
        Binding("s", "next_part"),
        Binding("o", "next_order"),
        Binding("O", "reverse"),
        Binding("up,k", "move(-1)"),
        Binding("down,j", "move(1)"),
        Binding("pageup", "page(-1)"),
        Binding("pagedown,space", "page(1)"),
        Binding("home,g", "move(-1000000)"),
        Binding("end,G", "move(1000000)"),
        Binding("left", "turn(-1)"),
        Binding("right", "turn(1)"),
        Binding("n", "step(1)"),
        Binding("b", "step(-1)"),
    ]

    @on(Driver.SignalResume)
    def _paint_after_suspension(self) -> None:
        self.action_repaint()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._do("find", event.value)

    def on_input_submitted(self) -> None:
        self._close_search()

    def action_search(self) -> None:
        field = self.query_one(Input)
        if self._pages is None or self._pages.view.detail or len(self.screen_stack) > 1:
            return
        if field.display:  # names have slashes too
            field.insert_text_at_cursor("/")
            return
        self._do("show_panel", "problems")
        self._search_before = self._pages.view.choice.search
        field.value = self._search_before
        field.display = True
        self.screen.set_focus(field)  # at once: what is typed next is the name

    def _close_search(self) -> None:
        self.query_one(Input).display = False
        self.set_focus(None)

    def action_step_back(self) -> None:
        if self.query_one(Input).display:
            self._do("find", self._search_before)
            self._close_search()
        else:
            self._do("back")

    def action_help(self) -> None:
        if self._pages is not None and len(self.screen_stack) == 1:  # once, however fast the key is pressed
            self.push_screen(HelpScreen(self._pages, self.action_leave))

    def action_repaint(self) -> None:
        self._painted = None
        self.refresh(repaint=True, layout=True)
        self.refresh_board()

    def action_leave(self) -> None:
        if self._act is None:
            self.exit()
        elif self._pages is None or not self._pages.view.stopping:
            self._do("stop")
            self._act("stop")

    def action_interrupt(self) -> None:
        """Ctrl-C where the terminal sends it as a key: what its signal does elsewhere."""
        if self._act is None:
            self.exit(return_code=130)
        else:
            self._do("stop")
            self._act("interrupt")

    def action_hold(self) -> None:
        snapshot = self.shown_snapshot()
        if self._pages is None or self._pages.view.stopping or snapshot is None:
            return
        self._do("hold")
        if self._act is not None:
            self._act("pause" if self._pages.view.paused else "resume")
        else:
            self._held = snapshot if self._pages.view.paused else None
            self._painted = None
            self.refresh_board()

    def action_move(self, by: int) -> None:
        if self._pages is not None and (self._pages.view.detail or self._pages.view.panel != "problems"):
            panel = self.query_one("#panel", LinesView)
            if panel.display:
                panel.scroll_to(y=panel.scroll_offset.y + by, animate=False, immediate=True)
                return
        self._do("move", by)

    def action_page(self, by: int) -> None:
        shown = next((v for v in (self.query_one("#panel"), self.query_one("#table")) if v.display), None)
        self.action_move(by * max(1, (shown.size.height if shown else 10) - 1))

    def action_open_chosen(self) -> None:
        self._do("open")

    def action_choose(self, problem: int) -> None:
        self._do("choose", problem)

    def action_open(self, problem: int, arm: int) -> None:
        self._do("choose", problem, arm)

    def action_arm(self, arm: int) -> None:
        self._do("show_arm", arm)

    def action_turn(self, by: int) -> None:
        self._do("turn", by)

    def action_step(self, by: int) -> None:
        self._do("step", by)

    def action_panel(self, name: str) -> None:
        self._do("show_panel", name)

    def action_next_panel(self, by: int) -> None:
        if len(self.screen_stack) == 1:
            self._do("next_panel", by)

    def action_narrow(self, which: str) -> None:
        self._do("toggle", which)

    def action_next_part(self) -> None:
        self._do("next_part")

    def action_next_order(self) -> None:
        self._do("next_order")

    def action_reverse(self) -> None:
        self._do("reverse")

    def action_sort(self, order: int) -> None:
        self._do("sort", order)

    def _do(self, what: str, *values: Any) -> None:
        """Change what is chosen, tell the source, show it."""
        snapshot = self.shown_snapshot()
        if self._pages is None or snapshot is None or self.source is None:
            return
        before = self._pages.view
        getattr(self._pages, what)(snapshot, *values)
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
