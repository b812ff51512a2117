"""Colours and marks. An arm is told by its mark and its colour together, never by colour alone.

The colours are Okabe and Ito's (2008), which differ for every common kind of colour blindness. Their black would vanish
on a dark terminal and their yellow on a light one: yellow comes last, grey stands in for black.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rich.color import Color
from rich.style import Style

_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#999999", "#F0E442")
_MARKS = "●▲■◆▼○△□"

STRONG = Style(bold=True)
DIM = Style(dim=True)
TITLE = Style(bold=True)
SELECTED = Style(reverse=True)
GOOD = Style(color=Color.parse("#009E73"), bold=True)
BAD = Style(color=Color.parse("#D55E00"), bold=True)
WARN = Style(color=Color.parse("#E69F00"), bold=True)
SHARED = Style(bold=True)
"""Of a plot's cell that several curves go through."""

ASCII = str.maketrans(
    {
        "●": "o", "▲": "^", "■": "#", "◆": "*", "▼": "v", "○": "0", "△": "A", "□": "=",
        "─": "-", "│": "|", "┤": "|", "└": "`", "┴": "+", "━": "=", "╺": "-", "…": "~", "·": ".", "Δ": "d", "→": ">",
        "←": "<", "↑": "^", "↓": "v", "±": "~", "×": "x", "–": "-", "−": "-", "▸": ">", "✓": "+",
    }
    | dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True))
    | {chr(0x2800 + n): "." if n else " " for n in range(256)}
)  # fmt: skip
"""For terminals whose encoding has none of these."""


def spell(text: str, encoding: str | None) -> str:
    """The text as a terminal of that encoding can show it; what it has no sign for becomes a question mark."""
    if text.isascii() or (encoding or "utf-8").lower().startswith("utf"):
        return text
    return text.translate(ASCII).encode(encoding or "ascii", "replace").decode(encoding or "ascii")


@dataclass(frozen=True)
class Look:
    """How an arm looks wherever it appears."""

    mark: str
    style: Style
    faint: Style


@cache
def look(number: int) -> Look:
    """Of the arm of that number; from the ninth on colours and marks are paired anew."""
    turn, place = divmod(number, len(_COLOURS))
    mark = _MARKS[(place + turn * 3) % len(_MARKS)]
    colour = Color.parse(_COLOURS[place])
    return Look(mark, Style(color=colour), Style(color=colour, dim=True))
