"""One chart as plain values: lines with their bands, or marks, of arms over two axes. It is computed once and drawn by
three renderers: matplotlib (evo.report.plot), Vega-Lite on the report's page (evo.report.charts, templates/charts.js),
and braille on a terminal (evo.tui.plot). An arm's colour and mark follow from its place (evo.monitor.arm_style)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.comparison.survival import Curve
from evo.encoding import visible

Floats = npt.NDArray[np.float64]
SOLVE_RATE, MEAN_BEST = "solve rate", "mean best fitness"
POINTS, DIGITS = 120, 5
"""Points at most of a curve on a page, one or two pixels apart, and the digits of each value."""


@dataclass(frozen=True)
class Axis:
    """log: a logarithmic scale; share: values from 0 to 1, shown in full; zero: the scale begins at 0."""

    title: str
    log: bool = False
    share: bool = False
    zero: bool = False


@dataclass(frozen=True, eq=False)
class Series:
    """A line of an arm.

    arm: its place in the comparison, from 0; seed: of a line of one run, None for a line of all runs
    x, y: (K,), NaN for a value that is not known
    low, high: (K,) its band; None for a line without one
    """

    arm: int
    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of an arm. x, y: (N,); count: (N,) how often each was given; front: (N,) whether no other mark beats it in
    one axis without losing in the other."""

    arm: int
    name: str
    x: Floats
    y: Floats
    count: Floats
    front: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Chart:
    """name: its id on a page. rule: an x that is marked by a line, None for none; steps: a line keeps its height until
    its next value."""

    name: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...] = ()
    marks: tuple[Marks, ...] = ()
    rule: int | None = None
    steps: bool = False


def curve_series(arm: int, name: str, curve: Curve) -> Series:
    return Series(arm, name, np.asarray(curve.at, dtype=np.float64), curve.mean, curve.low, curve.high)


def series_of(arms: Sequence[str], curves: Mapping[str, Curve]) -> tuple[Series, ...]:
    """The arms' curves with their bands, in the order of `curves`. arms: all of the comparison, in order"""
    return tuple(curve_series(arms.index(name), name, curve) for name, curve in curves.items())


def chart_values(chart: Chart) -> dict[str, Any]:
    """A chart of curves as JSON for templates/charts.js."""
    values: dict[str, Any] = {"title": visible(chart.title), "x": visible(chart.x.title), "y": visible(chart.y.title)}
    values |= {"kind": "curves", "lines": [_line_values(series) for series in chart.series]}
    options = {"rule": chart.rule, "share": chart.y.share, "zero": chart.y.zero, "log": chart.x.log}
    return values | {key: value for key, value in options.items() if value}


def _line_values(series: Series) -> dict[str, Any]:
    """At most POINTS values, evenly spaced, with both ends; null for an unknown value."""
    kept = point_places(len(series.x))
    columns = {"x": series.x, "y": series.y, "low": series.low, "high": series.high}
    line: dict[str, Any] = {"arm": series.arm} | ({} if series.seed is None else {"seed": series.seed})
    for key, values in columns.items():
        if values is not None:
            line[key] = [short_number(value) for value in values[kept]]
    return line


def point_places(count: int) -> npt.NDArray[np.int64]:
    """The places of at most POINTS of `count` values, evenly spaced, with both ends."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(np.int64))


def even_sample(values: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """All values, or an even sample of `most` of them."""
    sample: npt.NDArray[np.int64] = values[np.linspace(0, len(values) - 1, min(most, len(values))).astype(int)]
    return sample


def short_number(value: float, digits: int = DIGITS) -> float | None:
    """A value with so many digits for JSON; None if it is not finite."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None
