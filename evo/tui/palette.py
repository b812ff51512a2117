"""Styles of text, in the colours of evo.monitor.arm_style. Nothing is shown by colour only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from rich.style import Style

from evo.monitor import arm_style
from evo.monitor.arm_style import style_of

STRONG = Style(bold=True)
DIM = Style(dim=True)
LEGEND = Style(dim=True, italic=True)
SELECTED = Style(reverse=True)
GOOD = Style(color=arm_style.GOOD, bold=True)
BAD = Style(color=arm_style.BAD, bold=True)
WARN = Style(color=arm_style.WARN, bold=True)


@dataclass(frozen=True)
class ScreenLook:
    """How an arm looks wherever it appears."""

    mark: str
    style: Style
    faint: Style


@cache
def look(number: int) -> ScreenLook:
    """The look of the arm with that number."""
    its = style_of(number)
    return ScreenLook(its.mark, Style(color=its.rich), Style(color=its.rich, dim=True))


@lru_cache(maxsize=4_096)
def link(style: Style, action: str) -> Style:
    """The style, and the action of a click on it: an action of the screen, as `view('choose', 3)`."""
    return style + Style.from_meta({"@click": f"app.{action}"})
