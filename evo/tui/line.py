"""Text for a terminal: made harmless, measured and cut; text for a page: made harmless.

Text that a model wrote is made harmless here: whatever is not printable (escape and control characters, line
separators, marks that reverse the direction of writing, lone surrogates) becomes a dot. Nothing is ever read as markup.
"""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

_MASK = "·"
_ELLIPSIS = "…"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\uffff]"
    "|[\U000e0000-\U000e0fff]"
)


def clean(text: str) -> str:
    """The text with a dot for every character that is not printable; tabs become spaces."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "    " if c == "\t" else _MASK for c in text)


def clean_lines(text: str) -> str:
    """The same of a text of several lines, whose lines stay."""
    return "\n".join(map(clean, text.splitlines()))


def visible(text: str) -> str:
    """The text with every character visible, so that none is taken for another and none upsets a parser, a font or the
    direction of writing: control characters as their pictures (␀), other hidden characters, lone surrogates and marks
    of direction as <U+202E>. Newlines and tabs stay. Escaping for HTML comes after this."""
    return _HIDDEN.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def width_of(text: str) -> int:
    """Cells that it takes on a terminal; an ASCII text is one a character."""
    return len(text) if text.isascii() else cell_len(text)


def cut_to(text: str, width: int) -> str:
    """The text in at most that many cells, its end cut off if it is longer."""
    if width_of(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + _ELLIPSIS if width > 0 else ""


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
    return set_cell_size(text, width - 1 - width_of(end)).rstrip() + _ELLIPSIS + end
