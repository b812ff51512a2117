"""Themes of the screen. Text has a contrast of at least 4.5:1 on its background in each (WCAG 2.2, 1.4.3).

Widgets draw in the styles of evo.tui.palette, and `paint` gives them a theme's colours. `terminal` keeps the terminal's
background and the colours of evo.monitor.arm_style, so its contrast depends on the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from rich.color import Color
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from evo.monitor.arm_style import COLOURS

VARIABLE = "EVO_THEME"
FAINT = 0.55
"""The part of its colour that a faint curve keeps; the rest is the background's."""


@dataclass(frozen=True)
class ThemeColours:
    """muted: of titles and remarks; arms: in the order of evo.monitor.arm_style.COLOURS"""

    background: str
    foreground: str
    muted: str
    arms: tuple[str, ...]


COLOURS_OF: Mapping[str, ThemeColours] = {
    "dark": ThemeColours(
        "#12161b", "#e6e6e6", "#9aa3ad",
        ("#4d94ff", "#ff7a33", "#1fbf8f", "#e08fc0", "#f0b429", "#7fd4ff", "#a8a8a8"),
    ),
    "light": ThemeColours(
        "#fbfbf9", "#1a1a1a", "#5c6370",
        ("#0050a0", "#b04a00", "#00704f", "#a03a7a", "#8a5a00", "#1a78ad", "#666666"),
    ),
    "high-contrast": ThemeColours(
        "#000000", "#ffffff", "#cfcfcf",
        ("#7ab8ff", "#ff9d5c", "#4be0b0", "#ffa6dc", "#ffd24d", "#b3e6ff", "#c4c4c4"),
    ),
}  # fmt: skip
TERMINAL = "terminal"
THEMES = (
    *(
        Theme(
            name,
            primary=its.arms[0], accent=its.arms[4], foreground=its.foreground, background=its.background,
            surface=its.background, panel=its.background, success=its.arms[2], warning=its.arms[4], error=its.arms[1],
            dark=name != "light",
        )
        for name, its in COLOURS_OF.items()
    ),
    replace(BUILTIN_THEMES["ansi-dark"], name=TERMINAL),
)  # fmt: skip


def choose_theme() -> str:
    """The theme to begin with: EVO_THEME; `terminal` if NO_COLOR is set; `light` if the terminal reports a light
    background (COLORFGBG); else `dark`."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted in {theme.name for theme in THEMES}:
        return wanted
    if os.environ.get("NO_COLOR"):
        return TERMINAL
    return "light" if os.environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15") else "dark"


@lru_cache(maxsize=8_192)
def paint(style: Style, theme: str) -> Style:
    """The style in a theme's colours: the foreground for none, `muted` for a dim one."""
    its = COLOURS_OF.get(theme)
    if its is None:
        return style
    colour = style.color
    if colour is None:
        colour = Color.parse(its.muted if style.dim else its.foreground)
    elif colour.name.upper() in COLOURS:
        colour = Color.parse(its.arms[COLOURS.index(colour.name.upper())])
        if style.dim:
            colour = _blend(colour, Color.parse(its.background))
    return style + Style(color=colour, bgcolor=its.background, dim=False)


def _blend(colour: Color, background: Color) -> Color:
    """FAINT of a colour on a background."""
    pairs = zip(colour.get_truecolor(), background.get_truecolor(), strict=True)
    return Color.from_rgb(*(FAINT * a + (1 - FAINT) * b for a, b in pairs))
