"""Text for a terminal: made harmless, measured and cut.

Text that a model wrote is made harmless here: whatever is not printable (escape and control characters, line
separators, marks that reverse the direction of writing, lone surrogates) becomes a dot. Nothing is ever read as markup.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

MASK = "·"
ELLIPSIS = "…"


def clean(text: str) -> str:
    """The text with a dot for every character that is not printable; tabs become spaces."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "    " if c == "\t" else MASK for c in text)


def clean_lines(text: str) -> str:
    """The same of a text of several lines, whose lines stay."""
    return "\n".join(map(clean, text.splitlines()))


def width_of(text: str) -> int:
    """Cells that it takes on a terminal; an ASCII text is one a character."""
    return len(text) if text.isascii() else cell_len(text)


def cut_to(text: str, width: int) -> str:
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
        return cut_to(text, width)
    tail = (width - 1) // 2
    end = text[-tail:]
    while width_of(end) > tail:
        end = end[1:]
    return set_cell_size(text, width - 1 - width_of(end)).rstrip() + ELLIPSIS + end
