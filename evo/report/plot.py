"""Plots by matplotlib: the look of all of them, and charts (evo.chart) drawn as a PNG in memory. An arm has its colour
and mark (evo.monitor.arm_style) and also a line style. The same values give the same bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from evo.chart import Chart, Marks, Series
from evo.encoding import visible
from evo.monitor.arm_style import style_of

LINES: tuple[Any, ...] = (
    "-", (0, (5, 2)), (0, (6, 2, 1.5, 2)), (0, (1.8, 1)), (0, (9, 2)), (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)), (0, (3, 2.5))
)  # fmt: skip
MARKERS = {"circle": "o", "triangle-up": "^", "square": "s", "diamond": "D", "triangle-down": "v"}
MAP = "cividis"
UNKNOWN = "#e4e4e4"
INK, FAINT = "#222222", "#8a8a8a"
DPI = 140
LONGEST_LABEL, LONGEST_TITLE = 34, 60
MARKS = 10
"""Marks along a curve."""
SHIFT = 0.014
"""The share of an axis by which arms are shifted, so that equal marks of several arms are all visible."""

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,  # names are not formulas, even if they hold dollar signs
    "svg.hashsalt": "evo",
}


@dataclass(frozen=True, eq=False)
class Plot:
    """A picture. name: its file's stem; alt: a description; caption: how to read it; width: in CSS pixels.
    charts: those that the page draws instead of the picture, to show the value under the pointer; empty for none."""

    name: str
    alt: str
    caption: str
    png: bytes
    width: int
    height: int
    charts: tuple[Chart, ...] = ()


class NotebookFigure(Figure):
    """A figure that a notebook shows although nothing imported pyplot."""

    def _repr_png_(self) -> bytes:
        return png_of(self)


@dataclass(frozen=True)
class PlotLook:
    """How an arm is drawn. face: the colour that fills its marks, "none" for hollow ones."""

    colour: str
    line: Any
    marker: str
    face: str


@cache
def look(place: int) -> PlotLook:
    """Of the arm at that place of the comparison, from 0."""
    its = style_of(place)
    line = LINES[(place + place // len(LINES)) % len(LINES)]
    return PlotLook(its.colour, line, MARKERS[its.shape], "none" if its.hollow else its.colour)


@contextmanager
def styled() -> Iterator[None]:
    """Figures made and saved inside have this style, whatever the user's own settings are."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # characters that the font lacks are drawn as boxes; do not warn on the terminal
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Inches; axes row by row."""
    made = NotebookFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, columns, squeeze=False, **options)
    return made, list(axes.ravel())


def drawn(made: Figure, name: str, alt: str, caption: str) -> Plot:
    width, height = made.get_size_inches()
    return Plot(name, alt, caption, png_of(made), round(width * 96), round(height * 96))


def png_of(made: Figure) -> bytes:
    buffer = io.BytesIO()
    made.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def label(name: str, longest: int = LONGEST_LABEL) -> str:
    """A name as it may be in a plot: short, on one line, every character visible."""
    shown = visible(name).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= longest else "…" + shown[1 - longest :]


def legend_above(made: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """One legend for all axes of a figure; none for a single arm."""
    if len(names) > 1:
        labels = [label(name) for name in names]
        # about 14 letters to the inch, and 8 letters' room for each line; what has no room in one row goes below it
        across = max(1, int(made.get_size_inches()[0] * 14 / (max(map(len, labels)) + 8)))
        made.legend(handles, labels, loc="outside upper left", ncols=min(across, len(names)))


def draw_chart(ax: Axes, chart: Chart, small: bool = False) -> dict[str, Line2D]:
    """The chart on these axes, and the first line of each arm for a legend. small: one of many, without names of its
    axes."""
    lines: dict[str, Line2D] = {}
    for series in chart.series:
        lines.setdefault(series.name, _draw_series(ax, series, chart.steps))
    if chart.marks:
        lines |= _draw_marks(ax, chart.marks)
    if small:
        ax.set_title(label(chart.title), fontsize=8, fontweight="normal")
        ax.tick_params(labelsize=7)
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(3))
        return lines
    if chart.marks:
        ax.set_xlabel(label(chart.x.title), fontsize=8.5)
        ax.set_ylabel(label(chart.y.title), fontsize=8.5)
        ax.margins(0.08)
        return lines
    ax.set_title(label(chart.title, LONGEST_TITLE))
    ax.set_xlabel(chart.x.title + " (logarithmic)" * chart.x.log)
    if chart.x.log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if chart.x.zero:
        ax.set_xlim(left=0)
    if chart.y.share:
        ax.set_ylim(-0.02, 1.02)
    elif chart.y.zero:
        ax.set_ylim(bottom=0)
    if chart.rule is not None:
        ax.axvline(chart.rule, color=FAINT, linewidth=1, linestyle=":")
        place = ("data", "axes fraction")
        ax.annotate(" horizon", (chart.rule, 1.0), xycoords=place, color=FAINT, va="top", fontsize=8)
    return lines


def _draw_series(ax: Axes, series: Series, steps: bool) -> Line2D:
    """A line, with its band and marks along it if it has a band; NaN interrupts it."""
    its = look(series.arm)
    if series.low is None or series.high is None:
        style = "steps-post" if steps else "default"
        (line,) = ax.plot(series.x, series.y, color=its.colour, linestyle=its.line, linewidth=1.3, drawstyle=style)
        return line
    ax.fill_between(series.x, series.low, series.high, color=its.colour, alpha=0.13, linewidth=0)
    known = np.flatnonzero(np.isfinite(series.y))
    marked = known[np.unique(np.linspace(0, len(known) - 1, MARKS).astype(int))] if len(known) else known
    (line,) = ax.plot(
        series.x, series.y, color=its.colour, linestyle=its.line, marker=its.marker, markerfacecolor=its.face,
        markevery=[int(at) for at in marked],
    )  # fmt: skip
    return line


def _draw_marks(ax: Axes, marks: Sequence[Marks]) -> dict[str, Line2D]:
    """The marks of each arm, a little apart from those of the others, and the front of each as steps."""
    x, y = np.concatenate([of_arm.x for of_arm in marks]), np.concatenate([of_arm.y for of_arm in marks])
    span = np.array([float(np.ptp(x)) or 1.0, float(np.ptp(y)) or 1.0])
    lines = {}
    for place, of_arm in enumerate(marks):
        its = look(of_arm.arm)
        points = np.stack([of_arm.x, of_arm.y], axis=1) + (place - (len(marks) - 1) / 2) * SHIFT * span
        ax.scatter(
            points[:, 0], points[:, 1], s=14 + 13 * np.log10(of_arm.count), marker=its.marker, facecolors=its.face,
            edgecolors=its.colour, alpha=0.75, linewidths=0.8 if its.face == "none" else 0,
        )  # fmt: skip
        front = points[of_arm.front]
        front = front[np.argsort(front[:, 0])]
        (line,) = ax.step(
            front[:, 0], front[:, 1], where="pre", color=its.colour, linestyle=its.line, marker=its.marker,
            markerfacecolor=its.face, linewidth=1.2,
        )  # fmt: skip
        lines[of_arm.name] = line
    return lines


def figure_of(charts: Sequence[Chart], size: tuple[float, float], across: int, small: bool = False) -> Figure:
    """The charts in one figure, `across` in a row. size: in inches; small: many small charts without names of their
    axes"""
    made, axes = figure(*size, -(-len(charts) // across), across, sharex=small)
    lines: dict[str, Line2D] = {}
    for ax, chart in zip(axes, charts, strict=False):
        for name, line in draw_chart(ax, chart, small).items():
            lines.setdefault(name, line)
    for ax in axes[len(charts) :]:
        ax.set_visible(False)
    legend_above(made, list(lines.values()), list(lines))
    return made


def plot_charts(
    plot: tuple[str, str, str], charts: Sequence[Chart], size: tuple[float, float], across: int, small: bool = False
) -> Plot:
    """The picture of these charts. plot: its name, alt and caption; small: the page does not draw them itself"""
    made = figure_of(charts, size, across, small)
    return replace(drawn(made, *plot), charts=() if small else tuple(charts))
