"""Frames as what has to be written to a terminal: only the lines that changed, inside one synchronised update."""

from __future__ import annotations

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from rich.style import Style

from evo.tui.frame import Frame
from evo.tui.palette import spell

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"  # a synchronised update; terminals that know none ignore it


class Painter:
    """Turns frames into what has to be written so that the terminal shows them."""

    def __init__(self, console: Console) -> None:
        self._system: ColorSystem | None = COLOR_SYSTEMS.get(console.color_system or "")
        self._no_color = console.no_color
        self._encoding = console.encoding
        self._styles: dict[Style, Style] = {}
        self._shown: list[str] = []
        self._size = (0, 0)

    def forget(self) -> None:
        """The terminal no longer shows what was painted last."""
        self._shown = []

    def changes(self, frame: Frame, width: int, height: int) -> str:
        """What to write for this frame after the last; "" where they are alike."""
        lines = [self._line(segments) for segments in frame.lines]
        parts = []
        if self._size != (width, height):
            self._shown, self._size = [], (width, height)
            parts.append("\x1b[0m\x1b[2J")
        for row, line in enumerate(lines):
            if row >= len(self._shown) or self._shown[row] != line:
                parts.append(f"\x1b[{row + 1};1H{line}")
        self._shown = lines
        return BEGIN + "".join(parts) + END if parts else ""

    def _line(self, segments: list[Segment]) -> str:
        parts = []
        for segment in segments:
            text, style = segment.text, segment.style
            text = spell(text, self._encoding)
            parts.append(self._own(style).render(text, color_system=self._system) if style else text)
        return "".join(parts)

    def _own(self, style: Style) -> Style:
        """The style as this painter's terminal has it. A rich Style keeps the codes of the first terminal that it was
        rendered for, so each painter has copies."""
        own = self._styles.get(style)
        if own is None:
            colour = None if self._no_color else style.color
            own = Style(color=colour, bold=style.bold, dim=style.dim, reverse=style.reverse)
            self._styles[style] = own
        return own
