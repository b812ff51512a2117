"""Curves as braille dots: those of the arms over one axis, each named at its end and marked along its way, so that it
is recognisable without colours; and one of a few cells, for a line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.text import Text

from evo.comparison.summary import Curve
from evo.evaluation.preferences import Ints
from evo.tui.line import clean, shorten, width_of
from evo.tui.palette import Palette
from evo.values import write_number

NamedCurve = tuple[int, str, Curve]
"""An arm's place in the comparison, its name, and its curve."""
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # [row, column] of a dot in a cell
_DASH = 2
"""Cells that a curve is drawn in before the next one's turn, where they overlap."""
_MARK_EVERY = 14
_LEAST_WIDTH = 46
"""Of a plot that has room for names."""


def trace(ys: npt.ArrayLike, rows: int) -> Ints:
    """A curve as braille dots: (2 W,) dots from the top, NaN for a gap -> (rows, W) the dots of each cell. Neighbours
    are joined by a vertical stroke, half in each column."""
    values = np.asarray(ys, dtype=np.float64)
    dots = np.zeros((4 * rows, len(values)), dtype=np.int64)
    before: int | None = None
    for x, value in enumerate(values.tolist()):
        if value != value:
            before = None
            continue
        y = round(value)
        start = y if before is None else before
        for at in range(max(0, min(y, start)), min(len(dots) - 1, max(y, start)) + 1):
            dots[at, x if abs(at - y) <= abs(at - start) else x - 1] = 1
        before = y
    return np.asarray(np.einsum("yaxb,ab->yx", dots.reshape(rows, 4, -1, 2), _BITS))


def sparkcurve(values: npt.ArrayLike, width: int, low: float, high: float) -> str:
    """A curve as a thin line, `width` cells of two points each; the last value of each stretch counts, NaN is blank."""
    points = np.asarray(values, dtype=np.float64)
    if not len(points) or width < 1:
        return " " * max(0, width)
    last = np.clip(np.ceil(np.arange(1, 2 * width + 1) * len(points) / (2 * width)) - 1, 0, len(points) - 1)
    shares = (points[last.astype(np.int64)] - low) / (high - low) if high > low else np.ones(2 * width)
    return _characters(trace(3 - np.floor(np.clip(shares * 3.999, 0, 3)), 1)[0])


def _characters(cells: Ints) -> str:
    return "".join(chr(0x2800 + dots) if dots else " " for dots in cells.tolist())


def draw_plot(curves: Sequence[NamedCurve], share: bool, width: int, height: int, palette: Palette) -> Text:
    """`height` lines of `width` cells: the curves, and the axis below them. Shares are shown in percent; else the scale
    is that of the curves."""
    first, rows = curves[0][2], max(2, height - 1)
    known = [curve.mean[np.isfinite(curve.mean)] for *_, curve in curves]
    every = np.concatenate([*known, np.zeros(0)])
    low, high = (0.0, 1.0) if share or not len(every) else (float(every.min()), float(every.max()))
    room = 0.0 if high > low else max(abs(high) * 0.05, 0.01)
    low, high = low - room, high + room
    lasts = [float(values[-1]) if len(values) else math.nan for values in known]
    ends = [f"{last:4.0%}" if share else write_number(last, lasts) for last in lasts]
    heights = [(high, 0), ((low + high) / 2, (rows - 1) // 2), (low, rows - 1)]
    digits = 1 - math.floor(math.log10(high - low))
    write = write_number if digits <= 0 else f"{{:.{digits}f}}".format
    ticks = {row: f"{value:.0%}" if share else write(value) for value, row in heights}
    left = max(map(len, ticks.values())) + 1
    names = min(max(width_of(clean(name)) for _, name, _ in curves), 12)
    labels = max(names + max(map(len, ends)) + 4, len(first.unit) + 2) if width >= _LEAST_WIDTH else 0
    across = max(1, width - left - 1 - labels)
    at = np.round(np.linspace(0, len(first.at) - 1, 2 * across)).astype(np.int64)
    cells, owner = np.zeros((rows, across), dtype=np.int64), np.zeros((rows, across), dtype=np.int64)
    marks: dict[tuple[int, int], int] = {}  # along each curve, staggered, without overlap
    placed: dict[int, int] = {}  # row -> the curve whose end is beside it
    for number, (*_, curve) in enumerate(curves):
        dots = (high - curve.mean) / (high - low) * (4 * rows - 1)  # from the top
        drawn = trace(dots[at], rows)
        taken = (drawn > 0) & ((cells == 0) | (np.arange(across) // _DASH % len(curves) == number))
        cells, owner = np.where(taken, drawn, cells), np.where(taken, number, owner)
        for x in range(3 + number * max(1, _MARK_EVERY // len(curves)), across if len(curves) > 1 else 0, _MARK_EVERY):
            if (y := dots[at[2 * x]]) == y:
                marks.setdefault((min(max(round(y) // 4, 0), rows - 1), x), number)
    for number in sorted(range(len(curves)), key=lambda number: -lasts[number]):
        if not math.isnan(lasts[number]):
            row = min(rows - 1, int((high - lasts[number]) / (high - low) * rows))
            free = [other for other in range(rows) if other not in placed]
            placed[min(free, key=lambda other: (abs(other - row), other), default=row)] = number
    text = Text(no_wrap=True, overflow="crop")
    for y in range(rows):
        text.append(f"{ticks.get(y, ''):>{left}}┤", palette.muted)
        for x in range(across):
            number = marks.get((y, x), int(owner[y, x]))
            mark = palette.mark(curves[number][0]) if (y, x) in marks else _characters(cells[y, x : x + 1])
            text.append(mark, palette.arm(curves[number][0]))
        if labels and y in placed:
            arm, name, _ = curves[placed[y]]
            text.append(f" {palette.mark(arm)} {ends[placed[y]]} {shorten(name, names)}", palette.arm(arm))
        text.append("\n")
    begin, end = f"{first.at[0]:,.10g}", f"{first.at[-1]:,.10g} {first.unit}"
    between = max(1, across - len(begin) - len(end) + len(first.unit) + 1)
    return text.append(f"{' ' * left}└{begin}{' ' * between}{end}"[:width], palette.muted)
