"""Charts of the page as raw numbers: lines of arms with their bands, in the arms' colours and marks. The page's script
draws them (templates/page.js)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evo.comparison.summary import Curve
from evo.encoding import visible
from evo.progress.arm_style import style_of
from vpo.scalarize import Floats

POINTS = 120
"""Of a line at most."""


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

    def as_dict(self) -> dict[str, Any]:
        """For the script: null for an unknown value."""
        kept = np.unique(np.linspace(0, len(self.x) - 1, min(len(self.x), POINTS)).round().astype(int))
        found = {"x": self.x, "y": self.y, "low": self.low, "high": self.high}
        values = {
            key: [float(value) if math.isfinite(value) else None for value in of[kept]]
            for key, of in found.items()
            if of is not None
        }
        return {
            "name": visible(self.name),
            "steps": self.steps,
            "place": self.arm,
            **style_of(self.arm)._asdict(),
            **values,
        }


@dataclass(frozen=True, eq=False)
class Plot:
    """A chart. share: values from 0 to 1, shown in full; rule: a height that is marked, as a target; note: what it
    shows, in a sentence"""

    title: str
    x_title: str
    lines: Sequence[PlotLine]
    share: bool = False
    rule: float | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For the script."""
        lines = [line.as_dict() for line in self.lines]
        titles = {"title": visible(self.title), "x": visible(self.x_title)}
        return {**titles, "share": self.share, "rule": self.rule, "lines": lines}


def curve_lines(names: Sequence[str], curves: Mapping[str, Curve]) -> list[PlotLine]:
    """The arms' curves with their bands. names: all arms, in order"""
    lines = []
    for place, curve in ((place, curves[name]) for place, name in enumerate(names) if name in curves):
        x, y = np.insert(curve.at, 0, 0.0), np.insert(curve.mean, 0, curve.start)
        low, high = np.insert(curve.low, 0, math.nan), np.insert(curve.high, 0, math.nan)
        lines.append(PlotLine(place, names[place], x, y, low, high))
    return lines
