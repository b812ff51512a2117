"""Counts, rates and curves as a screen shows them: short, and of one width whatever their size. Values are written by
evo.values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

BARS = "▁▂▃▄▅▆▇█"


def ago(seconds: float) -> str:
    """now, 12s, 3m, 2h, 5d."""
    if seconds < 1:
        return "now"
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(seconds)}s"


def count(value: float | None) -> str:
    """Five cells at most: 999, 9,999, 12.3k, 4.5M; "-" if it is not known."""
    if value is None:
        return "-"
    if value < 9_999.5:
        return f"{value:,.0f}"
    for size, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if value < size * 999.5:
            scaled = value / size
            return f"{scaled:.1f}{letter}" if scaled < 99.95 else f"{scaled:.0f}{letter}"
    return f"{value:.0e}"


def rate(value: float | None) -> str:
    """The rate like `count`, with a decimal below ten."""
    return f"{value:.1f}" if value is not None and value < 9.95 else count(value)


_LEFT, _RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)
"""A braille character's dots from the lowest up."""


def _strokes(dots: Sequence[int]) -> npt.NDArray[np.int64]:
    """(4, 4) a column's dots for a line that comes from one height and goes to another: a rise is a stroke, without the
    dot that the column before has."""
    return np.array(
        [
            [sum(dots[at] for at in range(min(a, b), max(a, b) + 1) if at != a or a == b) for b in range(4)]
            for a in range(4)
        ]
    )


_INTO_LEFT, _INTO_RIGHT = _strokes(_LEFT), _strokes(_RIGHT)


def sparkcurve(values: npt.ArrayLike, width: int, low: float, high: float) -> str:
    """A curve as a thin line, `width` cells of two points each; the last value of each stretch counts, NaN is blank."""
    points = np.asarray(values, dtype=np.float64)
    if not len(points) or width < 1:
        return " " * max(0, width)
    last = np.clip(np.ceil(np.arange(1, 2 * width + 1) * len(points) / (2 * width)) - 1, 0, len(points) - 1)
    shown = points[last.astype(np.int64)]
    known = ~np.isnan(shown)
    share = (np.where(known, shown, low) - low) / (high - low) if high > low else np.ones(2 * width)
    heights = np.clip(share * 3.999, 0, 3).astype(np.int64)
    before = np.concatenate([heights[:1], heights[:-1]])
    before = np.where(np.concatenate([known[:1], known[:-1]]), before, heights)
    left = np.where(known[::2], _INTO_LEFT[before[::2], heights[::2]], 0)
    right = np.where(known[1::2], _INTO_RIGHT[before[1::2], heights[1::2]], 0)
    return "".join(chr(0x2800 + dots) if dots else " " for dots in (left | right).tolist())
