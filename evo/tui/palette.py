"""Styles of text, of the colours of evo.monitor.arm_style. Nothing is told by colour alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rich.style import Style

from evo.monitor import arm_style
from evo.monitor.arm_style import style_of

STRONG = Style(bold=True)
DIM = Style(dim=True)
TITLE = Style(bold=True)
SELECTED = Style(reverse=True)
GOOD = Style(color=arm_style.GOOD, bold=True)
BAD = Style(color=arm_style.BAD, bold=True)
WARN = Style(color=arm_style.WARN, bold=True)
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
    """Of the arm of that number."""
    its = style_of(number)
    return Look(its.mark, Style(color=its.rich), Style(color=its.rich, dim=True))
