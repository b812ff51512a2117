"""Charts of the page as inline SVG: lines of arms with their bands, in the arms' colours, marks and dashes. A mark
names its values under the pointer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from markupsafe import Markup, escape

from evo.comparison.summary import Curve
from evo.encoding import visible
from evo.progress.arm_style import style_of

Floats = npt.NDArray[np.float64]
Place = Callable[[float, float], tuple[float, float]]
WIDTH, HEIGHT = 460, 240
RIGHT, TOP, BOTTOM = 16, 10, 36
DIGIT = 7.6
"""Width of a character of a label."""
POINTS, MARKS = 120, 10
"""Points of a line at most, and marks along it."""
DASHES = ("", "7 3", "9 3 2 3", "2.5 2", "14 3", "9 2 2 2 2 2", "4 4")


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line of an arm. arm: its place in the comparison; x, y: (K,), NaN for an unknown value; low, high: its band, or
    None; steps: it keeps its height until the next value"""

    arm: int
    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    steps: bool = False


@dataclass(frozen=True)
class Plot:
    """A chart ready for a page. note: what it shows, in a sentence"""

    title: str
    svg: Markup
    note: str = ""


def curve_lines(names: Sequence[str], curves: Mapping[str, Curve], starts: Mapping[int, float]) -> list[PlotLine]:
    """The arms' curves with their bands. names: all arms, in order; starts: their values before the first iteration"""
    lines = []
    for place, curve in ((place, curves[name]) for place, name in enumerate(names) if name in curves):
        first = starts.get(place, math.nan)
        x, y = np.insert(curve.at, 0, 0.0), np.insert(curve.mean, 0, first)
        low, high = np.insert(curve.low, 0, math.nan), np.insert(curve.high, 0, math.nan)
        lines.append(PlotLine(place, names[place], x, y, low, high))
    return lines


def draw(
    title: str, x_title: str, lines: Sequence[PlotLine], *, share: bool = False, rule: float | None = None,
    note: str = "",
) -> Plot:  # fmt: skip
    """A chart of these lines. share: values from 0 to 1, shown in full; rule: a height that is marked, as a target"""
    xs = np.concatenate([line.x for line in lines] or [np.zeros(1)])
    heights = [values for line in lines for values in (line.y, line.low, line.high) if values is not None]
    ys = np.concatenate([*heights, *([] if rule is None else [np.array([rule])])] or [np.zeros(1)])
    across = _span(0.0 if xs.min() >= 0 else float(xs.min()), float(xs.max()))
    known = ys[np.isfinite(ys)]
    up = (0.0, 1.0) if share else _span(*((float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)))
    if not share:
        up = up[0] - 0.04 * (up[1] - up[0]), up[1] + 0.04 * (up[1] - up[0])

    labels = {value: f"{value:.0%}" if share else text for value, text in ticks(*up, 5).items()}
    left = round(12 + DIGIT * max(4, *map(len, labels.values())))

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            round(left + (x - across[0]) / (across[1] - across[0]) * (WIDTH - left - RIGHT), 1),
            round(TOP + (up[1] - y) / (up[1] - up[0]) * (HEIGHT - TOP - BOTTOM), 1),
        )

    parts = [_axes(across, up, at, x_title, labels)]
    if rule is not None:
        (x, y), (end, _) = at(across[0], rule), at(across[1], rule)
        parts.append(f'<path class="rule" d="M{x} {y}H{end}"/>')
    for line in lines:
        parts.append(_draw_line(line, at, x_title))
    label = f"{visible(title)} over {x_title}, {len(lines)} line{'s' * (len(lines) != 1)}"
    svg = f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
    return Plot(title, Markup(svg + "".join(parts) + "</svg>"), note)


def _span(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_line(line: PlotLine, place: Place, x_title: str) -> str:
    style = style_of(line.arm)
    kept = np.unique(np.linspace(0, len(line.x) - 1, min(len(line.x), POINTS)).round().astype(int))
    parts = []
    if line.low is not None and line.high is not None:
        edge = [i for i in kept if np.isfinite(line.low[i]) and np.isfinite(line.high[i])]
        if len(edge) > 1:
            ring = [place(line.x[i], line.high[i]) for i in edge] + [place(line.x[i], line.low[i]) for i in edge[::-1]]
            points = " ".join(f"{x},{y}" for x, y in ring)
            parts.append(f'<polygon points="{points}" fill="{style.colour}" fill-opacity="0.13"/>')
    path, before = [], None
    for i in kept:
        if not np.isfinite(line.y[i]):
            before = None
            continue
        x, y = place(line.x[i], line.y[i])
        path.append(f"M{x} {y}" if before is None else f"H{x}V{y}" if line.steps else f"L{x} {y}")
        before = y
    dash = DASHES[(line.arm + line.arm // len(DASHES)) % len(DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    parts.append(f'<path d="{"".join(path)}" fill="none" stroke="{style.colour}" stroke-width="1.7"{dashes}/>')
    known = np.flatnonzero(np.isfinite(line.y))
    for i in known[np.unique(np.linspace(0, len(known) - 1, MARKS).astype(int))] if len(known) else ():
        band = ""
        if line.low is not None and line.high is not None and np.isfinite(line.low[i]):
            band = f" [{line.low[i]:.3g}, {line.high[i]:.3g}]"
        text = escape(visible(f"{line.name}, {x_title} {line.x[i]:,.6g}: {line.y[i]:.4g}{band}"))
        x, y = place(line.x[i], line.y[i])
        fill = "none" if style.hollow else style.colour
        parts.append(
            f'<g transform="translate({x} {y})"><title>{text}</title><path class="mark" d="{SHAPES[style.shape]}" '
            f'fill="{fill}" stroke="{style.colour}"/><circle r="7" fill-opacity="0"/></g>'
        )
    return "".join(parts)


SHAPES = {
    "circle": "M-3 0A3 3 0 1 0 3 0A3 3 0 1 0 -3 0Z",
    "triangle-up": "M0 -3.6L3.4 2.6H-3.4Z",
    "triangle-down": "M0 3.6L3.4 -2.6H-3.4Z",
    "square": "M-2.8 -2.8H2.8V2.8H-2.8Z",
    "diamond": "M0 -3.8L3.8 0L0 3.8L-3.8 0Z",
}


def ticks(low: float, high: float, most: int = 6) -> dict[float, str]:
    """Round numbers in the range, with the digits that tell them apart."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    values = [step * n for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    places = max(0, -math.floor(math.log10(step) + 1e-9))
    form = f",.{places}f" if places < 9 and max(abs(low), abs(high)) < 1e9 else ".9g"
    return {round(value, 12): format(value + 0.0, form) for value in values}


def sparkline(values: Floats) -> Markup:
    """A small curve of values that rise, for a cell of a table."""
    x = np.linspace(2, 98, len(values))
    y = 22 - 20 * (values - values[0]) / (values[-1] - values[0] or 1)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return Markup(f'<svg class="plot" viewBox="0 0 100 24" aria-hidden="true"><polyline points="{points}"/></svg>')


def _axes(
    across: tuple[float, float], up: tuple[float, float], place: Place, x_title: str, labels: Mapping[float, str]
) -> str:
    parts, (left, bottom) = [], place(across[0], up[0])
    for value, text in labels.items():
        y = place(across[0], value)[1]
        parts.append(f'<path class="grid" d="M{left} {y}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{text}</text>')
    for value, text in ticks(*across).items():
        x = place(value, up[0])[0]
        parts.append(f'<path class="axis" d="M{x} {bottom}v4"/>')
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{text}</text>')
    parts.append(f'<path class="axis" d="M{left} {TOP}V{bottom}H{WIDTH - RIGHT}"/>')
    middle = (left + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{escape(visible(x_title))}</text>')
    return "".join(parts)
