"""How an arm looks on the screen, in the report and in its charts: one colour and one mark, the same everywhere. An arm
is told by its mark and its colour together, never by colour alone. The other colours with a meaning stand here too.

The colours are Okabe and Ito's (2008), which differ for every common kind of colour blindness. The order puts first
those that stand out on a light and on a dark ground. Their black would vanish on a dark one: grey stands in for it.
Their yellow would vanish on a light one and is left out.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rich.color import Color

BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SKY, GREY = "#56B4E9", "#8A8A8A"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
GOOD, BAD, WARN = GREEN, VERMILION, ORANGE
"""Of gains, losses and warnings. A sign or a word says the same beside them."""

SHAPES = {
    "●": "circle", "▲": "triangle-up", "■": "square", "◆": "diamond", "▼": "triangle-down",
    "○": "circle", "△": "triangle-up", "□": "square",
}  # fmt: skip
"""The marks, and the name of each one's shape in a chart."""
MARKS = "".join(SHAPES)
"""One more than colours: no two of the first 56 arms look alike."""
HOLLOW = "○△□"


class ArmStyle(NamedTuple):
    """colour: as HTML writes it, `#rrggbb`; rich: the same for a terminal; mark: one character, the same as the chart's
    `shape`, which is not filled where it is `hollow`."""

    colour: str
    rich: Color
    mark: str
    shape: str
    hollow: bool


@cache
def style_of(index: int) -> ArmStyle:
    """Of the arm at that place of the comparison, from 0. Raises ValueError for a negative one."""
    if index < 0:
        raise ValueError(f"arms are counted from 0: {index}")
    colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
    return ArmStyle(colour, Color.parse(colour), mark, SHAPES[mark], mark in HOLLOW)
