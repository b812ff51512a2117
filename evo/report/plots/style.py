"""How every plot looks: an arm's colour and mark as everywhere (evo.monitor.arm_style), a line style of its own
besides, white ground, one size of type. The same values give the same bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from evo.monitor.arm_style import style_of
from evo.report.text import visible

LINES: tuple[Any, ...] = (
    "-", (0, (5, 2)), (0, (6, 2, 1.5, 2)), (0, (1.8, 1)), (0, (9, 2)), (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)), (0, (3, 2.5))
)  # fmt: skip
MARKERS = {"circle": "o", "triangle-up": "^", "square": "s", "diamond": "D", "triangle-down": "v"}
MAP = "cividis"
UNKNOWN = "#e4e4e4"
INK, FAINT = "#222222", "#8a8a8a"
DPI = 140
LONGEST_LABEL = 34

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
    "text.parse_math": False,  # names are not formulas, whatever dollars they hold
    "svg.hashsalt": "evo",
}


@dataclass(frozen=True, eq=False)
class Plot:
    """A picture. name: its file's stem; alt: what it shows in words; caption: how to read it; width: in CSS pixels."""

    name: str
    alt: str
    caption: str
    png: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Look:
    """An arm's own. face: what its marks are filled with, "none" for hollow ones."""

    colour: str
    line: Any
    marker: str
    face: str


def looks(arms: Sequence[str]) -> dict[str, Look]:
    """By the arms' order."""
    found = {}
    for place, arm in enumerate(arms):
        its = style_of(place)
        line = LINES[(place + place // len(LINES)) % len(LINES)]
        found[arm] = Look(its.colour, line, MARKERS[its.shape], "none" if its.hollow else its.colour)
    return found


@contextmanager
def styled() -> Iterator[None]:
    """Figures made and saved inside have this style, whatever the user's own settings are."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # a name in letters that the font has not is drawn as boxes; that is no news on the terminal
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """Inches; axes row by row."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    axes = made.subplots(rows, columns, squeeze=False, **options)
    return made, list(axes.ravel())


def drawn(made: Figure, name: str, alt: str, caption: str) -> Plot:
    buffer = io.BytesIO()
    made.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    width, height = made.get_size_inches()
    return Plot(name, alt, caption, buffer.getvalue(), round(width * 96), round(height * 96))


def label(name: str, longest: int = LONGEST_LABEL) -> str:
    """A name as it may stand in a plot: short, on one line, nothing that cannot be seen."""
    shown = visible(name).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= longest else "…" + shown[1 - longest :]


def legend_above(made: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """One legend for all axes of a figure; none for one arm alone."""
    if len(names) > 1:
        labels = [label(name) for name in names]
        # about 14 letters to the inch, and 8 letters' room for each line; what has no room in one row goes below it
        across = max(1, int(made.get_size_inches()[0] * 14 / (max(map(len, labels)) + 8)))
        made.legend(handles, labels, loc="outside upper left", ncols=min(across, len(names)))
