"""Numbers as a screen shows them: short, and of one width whatever their size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from evo.values import LEAST_DIGITS, digits_of, write_number
from problems.objectives import Objective, own_fitness

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


def fitness(value: float | None, others: Iterable[float | None] = (), metrics: Sequence[Objective] = ()) -> str:
    """.750, 1.00, 12.3, -3.1, as the scorer measures it; "-" for none. others: that must look different
    metrics: of the problem"""
    others = [own_fitness(metrics, one) for one in others] + [one.seed for one in metrics if one.whole]
    value = own_fitness(metrics, value)
    if value is None or value != value:
        return "-"
    if digits_of((value, *others)) > LEAST_DIGITS:
        text = write_number(value, others)
        return text.replace("0.", ".", 1) if abs(value) < 1 else text
    if abs(value) < 0.9995:
        return f"{round(value, 3) + 0.0:.3f}".replace("0.", ".", 1)
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.4g}"


def signed(value: float) -> str:
    """+.062, -.20, 0."""
    if 0 < abs(value) < 0.0005:
        return f"{value:+.1g}"
    text = f"{value:+.3f}" if abs(value) < 0.9995 else f"{value:+.3g}"
    return "0" if float(text) == 0 else text.replace("0.", ".", 1) if abs(value) < 0.9995 else text


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


def common_prefix(names: Sequence[str]) -> str:
    """The common beginning of all names, up to a separator: `maze:hard/` of maze:hard/0, maze:hard/1; "" for one
    name."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    cut = max(first.rfind(separator, 0, same) for separator in "/:_-")
    return first[: cut + 1]
