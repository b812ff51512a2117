"""The page behind `?`, over the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from evo.tui.widgets import LinesView

if TYPE_CHECKING:
    from evo.tui.pages import Pages


class HelpScreen(ModalScreen[None]):
    """The page behind `?`, scrolling; any other key goes back."""

    CSS = "HelpScreen { background: ansi_default }"

    def __init__(self, pages: Pages, leave: Callable[[], None]) -> None:
        super().__init__()
        self._pages, self._leave = pages, leave

    def compose(self) -> ComposeResult:
        yield LinesView(id="help")

    def on_mount(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        self.query_one(LinesView).show(self._pages.help(self.app.size.width - 1))

    def on_key(self, event: events.Key) -> None:
        view, page = self.query_one(LinesView), max(1, self.app.size.height - 2)
        steps = {"down": 1, "j": 1, "up": -1, "k": -1, "pagedown": page, "space": page, "pageup": -page}
        steps |= {"home": -(10**6), "g": -(10**6), "end": 10**6, "G": 10**6}
        if event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        step = steps.get("G" if event.character == "G" else event.key)
        if not self.is_current:
            return  # the key before this one has closed the page already
        if step is None:
            self.dismiss()
            if event.key in ("q", "ctrl+q"):  # a page over the screen hides its keys from it
                self._leave()
        else:
            view.scroll_to(y=view.scroll_offset.y + step, animate=False)
