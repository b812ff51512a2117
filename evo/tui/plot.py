"""Curves of the arms with their bands, as lines of a screen: braille dots, axes with numbers, each curve named at its
end and marked along its way, so that it is recognisable without colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.style import Style
from rich.text import Text

from evo.comparison.summary import Curve
from evo.tui.line import clean, shorten, width_of
from evo.tui.palette import Palette

_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8)  # [row, column] in a cell
BLANK = 0x2800
BLANK_LAYER = -1
DASH = 2
"""Cells that a layer is drawn in before the next one's turn, where they overlap."""


class Canvas:
    """width x height cells; dot (0, 0) is at the top left."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = max(1, width), max(1, height)
        self._lines: dict[int, npt.NDArray[np.uint8]] = {}
        self._bands: dict[int, npt.NDArray[np.uint8]] = {}

    @property
    def dots(self) -> tuple[int, int]:
        """How many dots there are across and down."""
        return self.width * 2, self.height * 4

    def dot(self, x: int, y: int, layer: int, band: bool = False) -> None:
        """Set one dot of a layer; one outside the canvas is not drawn."""
        across, down = self.dots
        if not (0 <= x < across and 0 <= y < down):
            return
        layers = self._bands if band else self._lines
        if layer not in layers:
            layers[layer] = np.zeros((self.height, self.width), dtype=np.uint8)
        layers[layer][y // 4, x // 2] |= _BITS[y % 4, x % 2]

    def trace(self, ys: npt.ArrayLike, layer: int, band: bool = False, every: int = 1) -> None:
        """A curve, one value for each dot across, in dots from the top; NaN leaves a gap. Neighbours are joined
        by a vertical stroke. With `every`, only each so-many-th dot: a band's edge, sparse."""
        values = np.asarray(ys, dtype=np.float64)
        before: int | None = None
        for x, value in enumerate(values.tolist()):
            if value != value:  # NaN
                before = None
                continue
            y = round(value)
            if every > 1:
                if x % every == 0:
                    self.dot(x, y, layer, band)
                continue
            low, high = (y, y) if before is None else (min(y, before), max(y, before))
            # the stroke between two values is shared between their columns, half each
            for at in range(low, high + 1):
                self.dot(x if before is None or abs(at - y) <= abs(at - before) else x - 1, at, layer, band)
            before = y

    def rows(self) -> list[list[tuple[str, int, bool]]]:
        """Each cell as (character, layer, whether it is a band's): layer BLANK_LAYER for a blank one. A cell has one
        colour, so of several layers in a cell one is drawn: they take turns, DASH cells each."""
        lines, line_owner = self._shared(self._lines)
        bands, band_owner = self._shared(self._bands)
        dots = np.where(lines > 0, lines, bands)
        owner = np.where(lines > 0, line_owner, band_owner)
        is_band = (lines == 0) & (bands > 0)
        return [
            [
                (chr(BLANK + dot) if dot else " ", who, of_band)
                for dot, who, of_band in zip(dots[y].tolist(), owner[y].tolist(), is_band[y].tolist(), strict=True)
            ]
            for y in range(self.height)
        ]

    def _shared(self, layers: dict[int, npt.NDArray[np.uint8]]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """(height, width): the dots of the layer that is drawn in each cell, and the layer."""
        dots = np.zeros((self.height, self.width), dtype=np.uint8)
        owner = np.full((self.height, self.width), BLANK_LAYER, dtype=np.int64)
        if not layers:
            return dots, owner
        order = sorted(layers)
        masks = np.stack([layers[layer] for layer in order])
        there = masks > 0
        turn = (np.arange(self.width) // DASH) % np.maximum(1, there.sum(axis=0))
        rank: npt.NDArray[np.int64] = np.cumsum(there, axis=0) - there
        for number, layer in enumerate(order):
            drawn = there[number] & (rank[number] == turn)
            owner[drawn], dots[drawn] = layer, masks[number][drawn]
        return dots, owner


Floats = npt.NDArray[np.float64]
NamedCurve = tuple[int, str, Curve]
"""An arm's place in the comparison, its name, and its curve."""
MARK_EVERY = 14
BAND_EVERY = 3
MOST_BANDS = 3
"""Curves that are drawn with their bands; bands of more cannot be told apart."""
LOW = 8
"""Lines of a plot below which the axis has no rule."""


def draw_plot(curves: Sequence[NamedCurve], unit: str, share: bool, width: int, height: int, palette: Palette) -> Text:
    """`height` lines of `width` cells: curves with bands over one axis, which is below them. Shares are shown in
    percent; else the scale is that of the curves. More than MOST_BANDS curves have no bands."""
    axis = [int(x) for x in curves[0][2].at]
    names = max((min(width_of(clean(name)), 12) for _, name, _ in curves), default=0)
    labels = max(names + 7, len(unit) + 2) if width >= 46 else 0  # the unit is below the names
    left, below = 6, 2 if height >= LOW else 1
    canvas = Canvas(width - left - labels - 1, height - below)
    low, high = _range(curves, share)
    across, down = canvas.dots
    at = _columns(len(axis), across)
    for number, (_, _, curve) in enumerate(curves):
        for edge in (curve.low, curve.high) if len(curves) <= MOST_BANDS else ():
            canvas.trace(_heights(edge[at], low, high, down), number, band=True, every=BAND_EVERY)
    for number, (_, _, curve) in enumerate(curves):
        canvas.trace(_heights(curve.mean[at], low, high, down), number)
    marks = _marks(curves, at, low, high, canvas)
    ends = _ends(curves, low, high, canvas.height, share)
    ticks = _ticks(canvas.height, low, high, share)
    text = Text(no_wrap=True, overflow="crop")
    for y, row in enumerate(canvas.rows()):
        text.append(f"{ticks.get(y, ''):>{left - 1}}┤", palette.muted)
        for x, (char, owner, band) in enumerate(row):
            place = marks.get(y, {}).get(x, owner)
            style = Style() if place == BLANK_LAYER else palette.arm(curves[place][0])
            if x in marks.get(y, {}):
                char, band = palette.mark(curves[place][0]), False
            text.append(char, style + Style(dim=band))
        if labels and y in ends:
            number, value = ends[y]
            arm, name, _ = curves[number]
            text.append(f" {palette.mark(arm)} {value} {shorten(name, labels - 7)}", palette.arm(arm))
        text.append("\n")
    for line in _axis(axis, unit, left, canvas.width, width)[-below:]:
        text.append(line + "\n", palette.muted)
    text.right_crop(1)
    return text


def _range(curves: Sequence[NamedCurve], share: bool) -> tuple[float, float]:
    if share:
        return 0.0, 1.0
    banded = len(curves) <= MOST_BANDS
    shown = [values for _, _, its in curves for values in (its.mean, *((its.low, its.high) if banded else ()))]
    values = np.concatenate(shown or [np.zeros(1)])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = (high - low) * 0.05 or max(abs(high) * 0.05, 0.01)
    return low - room, high + room


def _columns(steps: int, across: int) -> npt.NDArray[np.int64]:
    """The step at each dot across."""
    return np.clip(np.round(np.linspace(0, steps - 1, across)), 0, max(0, steps - 1)).astype(np.int64)


def _heights(values: Floats, low: float, high: float, down: int) -> Floats:
    """Values as dots from the top."""
    return (1 - (values - low) / (high - low)) * (down - 1)


def _marks(
    curves: Sequence[NamedCurve], at: npt.NDArray[np.int64], low: float, high: float, canvas: Canvas
) -> dict[int, dict[int, int]]:
    """Row -> column -> curve whose mark is there: along each curve, staggered, without overlap."""
    marks: dict[int, dict[int, int]] = {}
    if len(curves) < 2:
        return marks
    stagger = max(1, MARK_EVERY // len(curves))
    for number, (_, _, curve) in enumerate(curves):
        for x in range(3 + number * stagger, canvas.width, MARK_EVERY):
            value = curve.mean[at[x * 2]]
            if value == value:
                y = int(round(float(_heights(np.array(value), low, high, canvas.height * 4)))) // 4
                marks.setdefault(min(max(y, 0), canvas.height - 1), {}).setdefault(x, number)
    return marks


def _ends(
    curves: Sequence[NamedCurve], low: float, high: float, height: int, share: bool
) -> dict[int, tuple[int, str]]:
    """Row -> (curve, its last value): next to its end, moved apart if several end together."""
    wanted = []
    for number, (_, _, curve) in enumerate(curves):
        known = curve.mean[np.isfinite(curve.mean)]
        if len(known):
            y = float(_heights(known[-1:], low, high, height * 4)[0]) / 4
            wanted.append((y, number, _value(float(known[-1]), share)))
    wanted.sort()
    rows: dict[int, tuple[int, str]] = {}
    last = -1
    for place, (y, number, text) in enumerate(wanted):
        row = min(max(int(y), last + 1), height - (len(wanted) - place))
        if row > last:
            rows[row] = (number, text)
            last = row
    return rows


def _value(value: float, share: bool) -> str:
    return f"{value:4.0%}" if share else f"{value:.3g}"


def _ticks(height: int, low: float, high: float, share: bool) -> dict[int, str]:
    """Row -> its number: round ones, in the row whose cell holds them."""
    count = 4 if height >= 9 else 2
    if share:
        values = [i / count for i in range(count + 1)]
    else:
        size = _round_step((high - low) / count)
        values = [size * n for n in range(math.ceil(low / size), math.floor(high / size) + 1)]
    down = height * 4
    digits = max(0, -math.floor(math.log10(_round_step((high - low) / count)) + 1e-9)) if not share else 0
    rows = {}
    for value in values:
        y = int(round(float(_heights(np.array(value), low, high, down)))) // 4
        rows[y] = f"{value:.0%}" if share else f"{value:.{min(digits, 3)}f}" if digits else f"{value:g}"
    return rows


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
    values = [first, *range(step, last, step), last]
    places: dict[int, int] = {}
    taken = -1
    for value in values:
        x = round((value - first) * (across - 1) / max(1, last - first))
        text = f"{value:,}"
        start = min(max(left + x - len(text) // 2, 0), width - len(text))
        end_room = len(f"{last:,}") + 2 if value != last else 0
        if start > taken and start + len(text) + end_room <= left + across + len(f"{last:,}") // 2 + 1:
            places[x] = value
            taken = start + len(text)
    rule = " " * (left - 1) + "└" + "".join("┴" if x in places else "─" for x in range(across))
    numbers = [" "] * width
    for x, value in places.items():
        text = f"{value:,}"
        start = min(max(left + x - len(text) // 2, 0), width - len(text))
        numbers[start : start + len(text)] = text
    return [rule, f"{''.join(numbers).rstrip()} {unit}"]
