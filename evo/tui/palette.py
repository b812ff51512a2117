"""Styles of text: each arm's colour and mark, and the colours with a meaning. Nothing is shown by colour only.

The arms' colours are those of evo.progress.arm_style, lighter on the screen's dark background, so that text has a
contrast of at least 4.5:1 (WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style
from rich.table import Table
from rich.text import Text

from evo.progress.arm_style import BAD, COLOURS, GOOD, WARN, style_of
from evo.tui.line import clean, shorten

if TYPE_CHECKING:
    from evo.progress.rows import TableCell, TableRow

STRONG = Style(bold=True)
_DIM = Style(dim=True)
_NAME_CELLS = 24
"""Of an arm's name in a table."""


@dataclass(frozen=True)
class Palette:
    """arms: colours in the order of arm_style.COLOURS; muted: of titles and remarks"""

    arms: tuple[str, ...]
    muted: Style = _DIM

    def arm(self, number: int) -> Style:
        return Style(color=self.arms[COLOURS.index(style_of(number).colour)])

    def mark(self, number: int) -> str:
        return style_of(number).mark

    @property
    def good(self) -> Style:
        return Style(color=self.arms[COLOURS.index(GOOD)], bold=True)

    @property
    def bad(self) -> Style:
        return Style(color=self.arms[COLOURS.index(BAD)], bold=True)

    @property
    def warn(self) -> Style:
        return Style(color=self.arms[COLOURS.index(WARN)], bold=True)

    def mood(self, name: str) -> Style:
        """The style of a state: good, bad, warn, or "" for none of them."""
        return {"good": self.good, "bad": self.bad, "warn": self.warn}.get(name, STRONG)

    def paint(self, cell: TableCell) -> Text:
        """A cell of a table in the style of its mark; an arm's name behind its own mark."""
        if cell.arm is not None:
            return Text(f"{self.mark(cell.arm)} {shorten(cell.text, _NAME_CELLS)}", self.arm(cell.arm))
        styles = {"above": self.good, "below": self.bad, "faint": self.muted, "solved": STRONG}
        return Text(clean(f"{cell.text} {cell.note}".rstrip()), styles.get(cell.mark, Style()))

    def table(self, rows: Sequence[TableRow]) -> Table:
        """Rows with equal titles, below these."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=self.muted)
        for title, cell in rows[0].items():
            table.add_column(Text(title), justify="right" if cell.number else "left", no_wrap=True, overflow="ellipsis")
        for row in rows:
            table.add_row(*map(self.paint, row.values()))
        return table


DARK = Palette(("#4d94ff", "#ff7a33", "#1fbf8f", "#e08fc0", "#f0b429", "#7fd4ff", "#a8a8a8"), Style(color="#9aa3ad"))
"""Of the screen, whose background is dark."""
TERMINAL = Palette(COLOURS)
"""Of text on a terminal, whose background is not known."""
