"""What each arm's operators make of the parents that they are shown."""

from __future__ import annotations

from evo.comparison.operators import BINS
from evo.comparison.operators_table import RATES, share_text
from evo.monitor.snapshot import Snapshot
from evo.tui.line import PLAIN, Line, Lines, clean, shorten, width_of
from evo.tui.palette import DIM, STRONG, look
from islands.types import QUARTERS

TITLES = (*(f"<{BINS[quarter].partition('-')[2]}" for quarter in range(QUARTERS)), "kept", "copy", "repeat", "alone")
"""Of RATES, short enough for the narrower column of a wide screen."""
NARROWEST = 9
"""Cells of an operator's name; where there is less room the last columns go."""


def draw_operators(snapshot: Snapshot, width: int, height: int) -> Lines:
    """A line for each operator below one of titles; pooled over problems and seeds."""
    rows = [(number, one) for number, arm in enumerate(snapshot.arms) for one in arm.operators]
    if not rows:
        return [Line(width).add("no answer to a parent yet", DIM)][:height]
    cells = [max(width_of(title) + 1, 5) for title in TITLES]
    while len(cells) > 1 and sum(cells) + NARROWEST + 2 > width:
        cells.pop()
    longest = max(width_of(_name(one.name)) for _, one in rows)
    names = min(longest, width - 2 - sum(cells))
    head = Line(width).gap(2).add("arm", DIM, names)
    for title, room in zip(TITLES, cells, strict=False):
        head.add(title, DIM, room, right=True)
    lines = [head]
    for number, one in rows:
        its = look(number)
        line = Line(width).add(its.mark, its.style).gap().add(shorten(_name(one.name), names), its.style, names)
        for place, (rate, room) in enumerate(zip(RATES, cells, strict=False)):
            value = one.shares.get(rate)
            style = DIM if value is None else STRONG if place < QUARTERS else PLAIN
            line.add(share_text(value), style, room, right=True)
        lines.append(line)
    return lines[:height]


def _name(name: str) -> str:
    """An operator's, without its arm's, whose mark stands before it, and without the kind of its address."""
    arm, _, policy = name.partition(": ")
    return clean(policy.partition(":")[2] or policy or arm)
