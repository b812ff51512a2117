"""The tree that a search grew: every candidate under its parent, the line to the best one marked."""

from __future__ import annotations

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from evo.report.lineage import Lineage
from evo.report.plots.style import FAINT, Look, Plot, drawn, figure, label

MOST = 3000
"""Candidates drawn beside the line: of a larger search those that were born first in each stretch."""


def tree_plot(lineage: Lineage, look: Look, number: int) -> Plot:
    search = lineage.search
    drawn_ones = np.flatnonzero(search.valid)
    if len(drawn_ones) > MOST:
        drawn_ones = drawn_ones[np.unique(np.linspace(0, len(drawn_ones) - 1, MOST).astype(int))]
    x, y = search.born + 1, search.fitness
    made, (ax,) = figure(7.6, 3.4)
    parents = np.searchsorted(search.ids, search.parents[drawn_ones])
    known = (search.parents[drawn_ones] >= 0) & (parents < len(search.ids))
    children, parents = drawn_ones[known], parents[known]
    edges = np.stack([np.stack([x[parents], y[parents]], axis=1), np.stack([x[children], y[children]], axis=1)], axis=1)
    ax.add_collection(LineCollection(list(edges), colors="#d9d9d9", linewidths=0.5, zorder=1))
    ax.plot(x[drawn_ones], y[drawn_ones], linestyle="", marker=".", color="#b5b5b5", markersize=3, zorder=2)
    line = np.array(lineage.line)
    ax.plot(x[line], y[line], color=look.colour, marker=look.marker, markerfacecolor=look.face, linewidth=1.8, zorder=3)
    for at in line[-1:]:
        ax.annotate(
            f"{y[at]:.4g}", (x[at], y[at]), textcoords="offset points", xytext=(6, -3), fontsize=8, color=look.colour
        )
    if lineage.target is not None:
        ax.axhline(lineage.target, color=FAINT, linewidth=1, linestyle=":")
        # at the left edge, whatever iterations the axis spans
        place = ax.get_yaxis_transform()
        ax.text(0.01, lineage.target, "target", color=FAINT, fontsize=8, va="bottom", transform=place)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("iteration")
    ax.set_ylabel("fitness")
    ax.set_title(f"{label(lineage.problem)}, {label(lineage.arm)}, seed {lineage.seed}")
    ax.margins(x=0.04, y=0.12)
    caption = (
        f"Every valid candidate of this search under its parent (grey), and the line of {len(line)} that leads to the "
        "best one. Each step with the difference to its parent stands below."
    )
    return drawn(made, f"lineage-{number}", "Candidates under their parents, the best one's line marked", caption)
