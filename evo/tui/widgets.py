"""Widgets of drawn lines: unchanged lines are not sent to the terminal again.

A line of Textual's own tables and labels costs some hundred times as much to change: 200 rows of them updated four
times a second take 30% of a core (bench/results/README.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from evo.tui.line import PLAIN, Line
from evo.tui.themes import paint

Segments = list[Segment]


class LinesView(ScrollView, can_focus=False):
    """Lines one below the other, scrolling if there are more than rows. A piece of text with a link can be clicked."""

    DEFAULT_CSS = """
    LinesView { width: 100%; height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; background: $background;
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-color: $foreground 50%;
        scrollbar-color-hover: $foreground; scrollbar-color-active: $foreground }
    LinesView.fixed { overflow-y: hidden }
    """

    def __init__(self, *, id: str, fixed: bool = False) -> None:
        super().__init__(id=id, classes="fixed" if fixed else None)
        self.auto_links = False
        self._lines: Sequence[Line] = ()
        self._shown: dict[int, Segments] = {}
        self._fitted: int | None = None

    def fit(self, height: int) -> None:
        """Take that many rows, none for 0. Setting a height lays the screen out again, so an equal one is not set."""
        if self._fitted != height:
            self.styles.height = self._fitted = height
            self.display = height > 0

    def appear(self, display: bool) -> None:
        """Be there or not; as with `fit`, only a change is set."""
        if self.display != display:
            self.display = display

    def show(self, lines: Sequence[Line]) -> None:
        """Show these; the place that was scrolled to stays."""
        self._lines = lines
        self._show(len(lines))

    def row(self, place: int) -> Segments:
        """A line as it is to be shown, any width."""
        return self._lines[place].segments

    def bring(self, place: int) -> None:
        """Scroll as little as makes this line be seen."""
        top, rows = self.scroll_offset.y, self.size.height
        if place < top or place >= top + rows > top:
            self.scroll_to(y=max(0, place if place < top else place - rows + 1), animate=False, immediate=True)

    def _show(self, count: int) -> None:
        size = Size(self.size.width, count)
        if size.height != self.virtual_size.height:
            self.virtual_size = size
            self.refresh()
            return
        top, width = self.scroll_offset.y, self.size.width
        changed = [
            Region(0, place - top, width, 1)
            for place in range(top, min(count, top + self.size.height))
            if self._shown.get(place) != self.row(place)
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        place, width = y + self.scroll_offset.y, self.size.width
        if not 0 <= place < self.virtual_size.height:
            self._shown.pop(place, None)
            return Strip.blank(width, paint(PLAIN, self.app.theme))
        segments = self.row(place)
        if len(self._shown) > 500:  # of places scrolled to before
            self._shown.clear()
        self._shown[place] = list(segments)
        theme = self.app.theme
        painted = [Segment(text, paint(style or PLAIN, theme)) for text, style, _ in segments]
        return Strip(painted).adjust_cell_length(width, paint(PLAIN, theme))


class RowsView(LinesView):
    """A table's rows, drawn when they come into sight."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._draw: Callable[[int], Line] | None = None
        self._drawn: dict[int, Segments] = {}

    def show_rows(self, draw: Callable[[int], Line], count: int) -> None:
        self._draw, self._drawn = draw, {}
        self._show(count)

    def row(self, place: int) -> Segments:
        if place not in self._drawn:
            assert self._draw is not None
            self._drawn[place] = self._draw(place).segments
        return self._drawn[place]


class FittedColumn(Vertical):
    """A column of views."""

    _fitted: int | str | None = None

    def fit(self, width: int | str) -> None:
        """Be so wide, in cells or as `1fr`; only a change is set."""
        if self._fitted != width:
            self.styles.width = self._fitted = width
