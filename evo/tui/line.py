"""One line of the screen: styled pieces of text that never take more cells than there are.

Everything on the screen goes through here, so text that a model wrote is made harmless here: whatever
is not printable (escape and control characters, line separators, marks that reverse the direction of writing, lone
surrogates) becomes a dot. Nothing is ever read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style

PLAIN = Style()
MASK = "·"
ELLIPSIS = "…"


def clean(text: str) -> str:
    """The text with a dot for every character that is not printable; tabs become spaces."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "    " if c == "\t" else MASK for c in text)


def width_of(text: str) -> int:
    """Cells that it takes on a terminal; an ASCII text is one a character."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int) -> str:
    """The text in at most that many cells, its end cut off if it is longer."""
    if width_of(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS if width > 0 else ""


def shorten(text: str, width: int) -> str:
    """Cut to at most that many cells, in the middle if it is longer: a name's two ends identify it."""
    text = clean(text)
    if width_of(text) <= width:
        return text
    if width < 5:
        return fit(text, width)
    tail = (width - 1) // 2
    end = text[-tail:]
    while width_of(end) > tail:
        end = end[1:]
    return set_cell_size(text, width - 1 - width_of(end)).rstrip() + ELLIPSIS + end


class Line:
    """Built from left to right; the rest that does not fit is cut off."""

    __slots__ = ("room", "segments")

    def __init__(self, width: int) -> None:
        self.room = max(0, width)
        self.segments: list[Segment] = []

    def add(self, text: str, style: Style = PLAIN, width: int = 0, right: bool = False) -> Line:
        """Append text, in a column of `width` cells if that is above 0; returns the line."""
        if not text.isprintable():
            text = clean(text)
        if width > 0:
            text = fit(text, width)
            space = " " * (width - width_of(text))
            text = space + text if right else text + space
        cells = width_of(text)
        if cells > self.room:
            text = fit(text, self.room)
            cells = width_of(text)
        if text:
            self.segments.append(Segment(text, style))
            self.room -= cells
        return self

    def extend(self, segments: Iterable[Segment]) -> Line:
        """Append segments that are clean already."""
        for segment in segments:
            cells = width_of(segment.text)
            if cells > self.room:
                return self.add(segment.text, segment.style or PLAIN)
            self.segments.append(segment)
            self.room -= cells
        return self

    def gap(self, cells: int = 1) -> Line:
        """Append spaces."""
        return self.add(" " * cells)

    def flush(self, text: str, style: Style = PLAIN) -> Line:
        """Append text at the right edge; nothing if it does not fit."""
        text = clean(text)
        cells = width_of(text)
        if cells + 1 <= self.room:
            self.add(" " * (self.room - cells)).add(text, style)
        return self

    def text(self) -> str:
        """Its text, without styles and trailing spaces."""
        return text_of(self.segments).rstrip()

    def done(self) -> list[Segment]:
        """The segments, filled up to the full width."""
        if self.room:
            self.segments.append(Segment(" " * self.room, PLAIN))
            self.room = 0
        return self.segments


Lines = list[Line]


def text_of(segments: Sequence[Segment]) -> str:
    """A line without its styles."""
    return "".join(segment.text for segment in segments)


def wrap(text: str, width: int, limit: int, words: bool = False) -> list[str]:
    """A text of several lines, clean, cut into pieces of at most `width` cells, at most `limit` of them; between
    words, if there are any."""
    pieces: list[str] = []
    for line in text.splitlines() or [""]:
        rest = clean(line)
        while True:
            piece = rest if width_of(rest) <= width else set_cell_size(rest, width).rstrip(" ") or rest[:1]
            cut = piece.rfind(" ") if words and len(piece) < len(rest) and rest[len(piece)] != " " else -1
            piece = piece[:cut] if cut > len(piece) // 2 else piece
            pieces.append(piece)
            if len(pieces) >= limit:
                return pieces
            rest = rest[len(piece) :]
            rest = rest.lstrip(" ") if words else rest
            if not rest.strip():
                break
    return pieces
