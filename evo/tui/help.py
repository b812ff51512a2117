"""The page behind `?`: the keys, and what every word and sign on the screen means."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from evo.glossary import SCREEN
from evo.tui.line import Line, Lines, wrap
from evo.tui.palette import STRONG
from evo.tui.widgets import LinesView

KEYS = {
    "up down, k j": "choose another problem; in the detail: scroll. The wheel scrolls the part under it",
    "page up, page down": "one page; also home and end, g and G",
    "enter, a click": "open the best answer to the chosen problem: vector, lineage, change against its parent,"
    " statement (a maze with the route through it), prompt, full text; escape goes back",
    "left right": "in the detail: another arm; n and b: another problem",
    "tab, a click": "another panel; on a wide screen the other column, whose titles are then highlighted and which the"
    " arrows scroll",
    "/": "search problems by name; enter keeps the search, escape cancels it",
    "u": "show only problems that no arm has solved",
    "d": "show only problems on which arms differ: solved by some and not by others",
    "s": "show one set of problems, then the next, then all",
    "o, O": "sort by number, name, who won, or an arm's outcome; O reverses the order. A click on a title sorts too",
    "y": "copy the answer that is open, else the standings, to the clipboard",
    "e": "write the screen as an SVG file in the current directory",
    "t": "another theme: dark, light, high-contrast, or terminal; EVO_THEME chooses the first one",
    "ctrl+p": "search all commands",
    "ctrl+l": "repaint the screen",
}
LIVE_KEYS = {
    "p": "pause: no new proposals; groups in flight are finished",
    "q": "stop: finish the groups in flight, then end; evo resume continues",
    "ctrl+c": "the same as q; a second time: stop at once",
}
WATCH_KEYS = {"p": "hold the picture", "q": "leave; the run continues"}


def draw_help(live: bool, width: int) -> Lines:
    """The help, in as many lines as it takes. live: whether the screen can pause and stop the search."""
    lines: Lines = []
    for title, entries in {"Keys": {**(LIVE_KEYS if live else WATCH_KEYS), **KEYS}, **SCREEN}.items():
        lines += [Line(width)] if lines else []
        lines.append(Line(width).add(title, STRONG))
        for word, meaning in entries.items():
            lines += _entry(word, meaning, width)
    return lines


def _entry(word: str, meaning: str, width: int) -> Lines:
    pieces = wrap(meaning, max(12, width - 24), 9, words=True)
    return [Line(width).gap(2).add(" " if at else word, STRONG, 20).gap().add(piece) for at, piece in enumerate(pieces)]


class HelpScreen(ModalScreen[None]):
    """The page behind `?`, scrolling; any other key goes back."""

    CSS = "HelpScreen { background: $background }"

    def __init__(self, live: bool, leave: Callable[[], None]) -> None:
        super().__init__()
        self._live, self._leave = live, leave

    def compose(self) -> ComposeResult:
        yield LinesView(id="help")

    def on_mount(self) -> None:
        self._show()

    def on_resize(self) -> None:
        self._show()

    def _show(self) -> None:
        self.query_one(LinesView).show(draw_help(self._live, self.app.size.width - 1))

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
