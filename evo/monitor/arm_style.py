"""How an arm looks on the screen and in the report: one colour and one mark, the same in both. An arm is told by its
mark and its colour together, never by colour alone.

The colours are Okabe and Ito's (2008), which differ for every common kind of colour blindness. The order puts first
those that stand out on a light and on a dark ground. Their black would vanish on a dark one: grey stands in for it.
Their yellow would vanish on a light one and is left out.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rich.color import Color

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")
MARKS = "●▲■◆▼○△□"
"""One more than colours: no two of the first 56 arms look alike."""


class ArmStyle(NamedTuple):
    """colour: as HTML writes it, `#rrggbb`; rich: the same for a terminal; mark: one character."""

    colour: str
    rich: Color
    mark: str


@cache
def style_of(index: int) -> ArmStyle:
    """Of the arm at that place of the comparison, from 0. Raises ValueError for a negative one."""
    if index < 0:
        raise ValueError(f"arms are counted from 0: {index}")
    colour = COLOURS[index % len(COLOURS)]
    return ArmStyle(colour, Color.parse(colour), MARKS[index % len(MARKS)])
