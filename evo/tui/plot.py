"""Curves of the arms with their bands, as lines of a screen: braille dots, axes with numbers, each curve named at its
end and marked along its way, so that it is recognisable without colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.style import Style
from rich.text import Text

from evo.comparison.results import Floats, Ints
from evo.comparison.summary import Curve
from evo.tui.line import clean, shorten, width_of
from evo.tui.palette import Palette
from evo.values import write_number

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # [row, column] of a dot in a cell
NO_CURVE = -1
DASH = 2
"""Cells that a curve is drawn in before the next one's turn, where they overlap."""
NamedCurve = tuple[int, str, Curve]
"""An arm's place in the comparison, its name, and its curve."""
MARK_EVERY = 14
BAND_EVERY = 3
MOST_BANDS = 3
"""Curves that are drawn with their bands; bands of more cannot be told apart."""
LOW = 8
"""Lines of a plot below which the axis has no rule."""


def trace(ys: npt.ArrayLike, height: int, every: int = 1) -> Ints:
    """A curve as braille dots: (2 W,) dots from the top, NaN for a gap -> (height, W) the dots of each cell. Neighbours
    are joined by a vertical stroke, half in each column. every: only each so-many-th dot, as for a band's edge"""
    values = np.asarray(ys, dtype=np.float64)
    dots = np.zeros((4 * height, len(values)), dtype=np.int64)
    before: int | None = None
    for x, value in enumerate(values.tolist()):
        if value != value or x % every:
            before = None
            continue
        y = round(value)
        start = y if before is None else before
        for at in range(max(0, min(y, start)), min(len(dots) - 1, max(y, start)) + 1):
            dots[at, x if abs(at - y) <= abs(at - start) else x - 1] = 1
        before = y
    return np.asarray(np.einsum("yaxb,ab->yx", dots.reshape(height, 4, -1, 2), _BITS))


def overlay(curves: Sequence[Ints]) -> tuple[Ints, Ints]:
    """(height, W) the dots drawn in each cell, and the number of their curve, NO_CURVE for a blank cell. A cell has one
    colour, so curves that share it take turns, DASH cells each."""
    cells = np.stack(curves)
    there = cells > 0
    turn = np.arange(cells.shape[2]) // DASH % np.maximum(1, there.sum(axis=0))
    drawn = there & (np.cumsum(there, axis=0) - there == turn)
    return (cells * drawn).sum(axis=0), np.where(drawn.any(axis=0), drawn.argmax(axis=0), NO_CURVE)


def draw_plot(curves: Sequence[NamedCurve], share: bool, width: int, height: int, palette: Palette) -> Text:
    """`height` lines of `width` cells: curves with bands over one axis, which is below them. Shares are shown in
    percent; else the scale is that of the curves. More than MOST_BANDS curves have no bands."""
    axis = [int(x) for x in curves[0][2].at]
    names = max((min(width_of(clean(name)), 12) for _, name, _ in curves), default=0)
    unit = curves[0][2].unit
    ends = {name: next(iter(curve.mean[np.isfinite(curve.mean)][::-1].tolist()), math.nan) for _, name, curve in curves}
    lasts = {name: f"{last:4.0%}" if share else write_number(last, ends.values()) for name, last in ends.items()}
    numbers = max(map(len, lasts.values()), default=0)
    labels = max(names + numbers + 3, len(unit) + 2) if width >= 46 else 0  # the unit is below the names
    below = 2 if height >= LOW else 1
    rows = max(1, height - below)
    banded = [curve for *_, curve in curves] if len(curves) <= MOST_BANDS else []
    scaled = [curve.mean for *_, curve in curves] + [edge for curve in banded for edge in (curve.low, curve.high)]
    low, high = (0.0, 1.0) if share else _range(scaled)
    marked = _ticks(rows, low, high, share)
    left = max(6, *(len(text) + 2 for _, text in marked))
    across = max(1, width - left - labels - 1)
    at = np.clip(np.round(np.linspace(0, len(axis) - 1, 2 * across)), 0, max(0, len(axis) - 1)).astype(np.int64)

    def heights(values: Floats) -> Floats:
        """Values as dots from the top."""
        return (1 - (values - low) / (high - low)) * (4 * rows - 1)

    def row_of(value: float) -> int:
        return min(max(round(float(heights(np.array(value)))) // 4, 0), rows - 1)

    lines, owner = overlay([trace(heights(curve.mean[at]), rows) for *_, curve in curves])
    bands, band_owner = np.zeros_like(lines), owner
    if banded:
        edges = [[trace(heights(edge[at]), rows, BAND_EVERY) for edge in (curve.low, curve.high)] for curve in banded]
        bands, band_owner = overlay([lower | upper for lower, upper in edges])
    marks: dict[tuple[int, int], int] = {}  # along each curve, staggered, without overlap
    for number, (*_, curve) in enumerate(curves if len(curves) > 1 else ()):
        for x in range(3 + number * max(1, MARK_EVERY // len(curves)), across, MARK_EVERY):
            if (value := curve.mean[at[2 * x]]) == value:
                marks.setdefault((row_of(value), x), number)
    named = _ends([heights(curve.mean) / 4 for *_, curve in curves], rows)
    ticks = {row_of(value): text for value, text in marked}
    text = Text(no_wrap=True, overflow="crop")
    for y in range(rows):
        text.append(f"{ticks.get(y, ''):>{left - 1}}┤", palette.muted)
        for x in range(across):
            is_line = lines[y, x] > 0
            dots, place = (lines[y, x], owner[y, x]) if is_line else (bands[y, x], band_owner[y, x])
            if (y, x) in marks:
                arm = curves[marks[y, x]][0]
                text.append(palette.mark(arm), palette.arm(arm))
            elif dots:
                text.append(chr(0x2800 + int(dots)), palette.arm(curves[place][0]) + Style(dim=not is_line))
            else:
                text.append(" ")
        if labels and y in named:
            arm, name, _curve = curves[named[y]]
            end = f" {palette.mark(arm)} {lasts[name]} {shorten(name, labels - numbers - 3)}"
            text.append(end, palette.arm(arm))
        text.append("\n")
    for line in _axis(axis, unit, left, across, width)[-below:]:
        text.append(line + "\n", palette.muted)
    text.right_crop(1)
    return text


def _range(shown: Sequence[Floats]) -> tuple[float, float]:
    values = np.concatenate([*shown, np.zeros(0)])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = (high - low) * 0.05 or max(abs(high) * 0.05, 0.01)
    return low - room, high + room


def _ends(heights: Sequence[Floats], rows: int) -> dict[int, int]:
    """Row -> the curve whose end is next to it; moved apart if several end together."""
    wanted = sorted((float(ys[np.isfinite(ys)][-1]), n) for n, ys in enumerate(heights) if np.isfinite(ys).any())
    placed: dict[int, int] = {}
    last = -1
    for place, (y, number) in enumerate(wanted):
        row = min(max(int(y), last + 1), rows - (len(wanted) - place))
        if row > last:
            placed[row] = number
            last = row
    return placed


def _ticks(rows: int, low: float, high: float, share: bool) -> list[tuple[float, str]]:
    count = 4 if rows >= 9 else 2
    if share:
        return [(i / count, f"{i / count:.0%}") for i in range(count + 1)]
    size = _round_step((high - low) / count)
    digits = max(0, -math.floor(math.log10(size) + 1e-9))
    values = [size * n for n in range(math.ceil(low / size), math.floor(high / size) + 1)]
    return [(value, f"{value:.{digits}f}" if digits else f"{value:,.0f}") for value in values]


def _round_step(size: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 ... and their tenths."""
    if size <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(size))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= size * (1 - 1e-9))


def _axis(axis: Sequence[int], unit: str, left: int, across: int, width: int) -> list[str]:
    """The line below, and round numbers below that."""
    if not axis:
        return ["", ""]
    first, last = axis[0], axis[-1]
    step = max(1, int(_round_step((last - first) / max(2, min(6, across // 10)))))
    places, numbers, taken = set[int](), [" "] * width, -1
    for value in [first, *range(step, last, step), last]:
        x = round((value - first) * (across - 1) / max(1, last - first))
        text = f"{value:,}"
        start = min(max(left + x - len(text) // 2, 0), width - len(text))
        end_room = len(f"{last:,}") + 2 if value != last else 0
        if start > taken and start + len(text) + end_room <= left + across + len(f"{last:,}") // 2 + 1:
            places.add(x)
            taken = start + len(text)
            numbers[start:taken] = text
    rule = " " * (left - 1) + "└" + "".join("┴" if x in places else "─" for x in range(across))
    return [rule, f"{''.join(numbers).rstrip()} {unit}"]
