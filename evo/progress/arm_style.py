"""The style of an arm on the screen, in the report and in charts: one colour and one mark, the same everywhere. Arms
differ by mark and colour together, never only by colour. The other colours with a meaning are defined here too.

The colours are those of Okabe and Ito (2008), which differ for every common kind of colour blindness. Colours with a
high contrast on light and dark backgrounds come first. Their black is invisible on a dark background, so grey replaces
it. Their yellow is invisible on a light background and is left out.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SKY, GREY = "#56B4E9", "#8A8A8A"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
GOOD, BAD, WARN = GREEN, VERMILION, ORANGE
"""Colours of gains, losses and warnings. A sign or a word always has the same meaning as the colour."""

MARK_SHAPES = {
    "●": "circle", "▲": "triangle-up", "■": "square", "◆": "diamond", "▼": "triangle-down",
    "○": "circle", "△": "triangle-up", "□": "square",
}  # fmt: skip
"""The marks, with the name of each mark's shape in a chart."""
MARKS = "".join(MARK_SHAPES)
"""One more than colours, so the first 56 arms all look different."""
HOLLOW = "○△□"


class ArmStyle(NamedTuple):
    """colour: `#rrggbb`; mark: one character, like the chart's `shape`, which is not filled if it is `hollow`."""

    colour: str
    mark: str
    shape: str
    hollow: bool


@cache
def style_of(index: int) -> ArmStyle:
    """The style of the arm with this index in the comparison, from 0. Raises ValueError for a negative index."""
    if index < 0:
        raise ValueError(f"arms are counted from 0: {index}")
    colour, mark = COLOURS[index % len(COLOURS)], MARKS[index % len(MARKS)]
    return ArmStyle(colour, mark, MARK_SHAPES[mark], mark in HOLLOW)
