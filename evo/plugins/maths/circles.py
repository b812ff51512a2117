"""Circles in the unit square, the sum of whose radii is to be large: 26 of them, and 32.

Feasible at tolerance 0: centres and radii are floats, so exact integers over a power of two, and so are the squares
that are compared. If circles overlap or leave the square, all radii shrink by one factor until none does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from evo.plugins.maths.exact import to_integers
from evo.plugins.maths.task import Best, MathsTask, Measured, Unfit
from evo.plugins.maths.values import read_numbers, read_rows

Circle = tuple[float, float, float]
_LESS = 1.0 - 2.0**-50
_TRIES = 40


def read_circles(returned: Any, count: int) -> list[Circle]:
    """`count` rows x, y, r; or (centres, radii) with or without a claimed sum. Negative radii count as 0."""
    if isinstance(returned, (tuple, list)) and len(returned) in (2, 3) and count > 3:
        centres = read_rows(returned[0], "centres", count, 2)
        radii = read_numbers(returned[1], "radii", count)
        rows = [[x, y, r] for (x, y), r in zip(centres, radii, strict=True)]
    else:
        rows = read_rows(returned, "circles", count, 3)
    for x, y, r in rows:
        if not max(abs(x), abs(y), abs(r)) < 1e6:
            raise Unfit(f"a circle at ({x:g}, {y:g}) with radius {r:g}")
    return [(x, y, max(0.0, r)) for x, y, r in rows]


def overlapping(circles: Sequence[Circle]) -> tuple[int, int] | None:
    """The first two circles whose interiors meet, in exact arithmetic; None if no two do."""
    numbers, _ = to_integers([number for circle in circles for number in circle])
    scaled = [numbers[at : at + 3] for at in range(0, len(numbers), 3)]
    for (i, (x, y, r)), (j, (u, v, s)) in combinations(enumerate(scaled), 2):
        if (x - u) ** 2 + (y - v) ** 2 < (r + s) ** 2:
            return i, j
    return None


def outside(circles: Sequence[Circle]) -> int | None:
    """The first circle that is not inside the unit square, in exact arithmetic."""
    numbers, unit = to_integers([number for circle in circles for number in circle])
    for at in range(0, len(numbers), 3):
        x, y, r = numbers[at : at + 3]
        if not (r <= x <= unit - r and r <= y <= unit - r):
            return at // 3
    return None


def shrink(circles: Sequence[Circle], walls: bool) -> tuple[list[Circle], str]:
    """The circles with all radii smaller by the factor that makes them feasible, and a sentence on the repair."""
    feasible = list(circles)
    pair, out = overlapping(feasible), outside(feasible) if walls else None
    if pair is None and out is None:
        return feasible, ""
    factor = _largest_factor(feasible, walls)
    if factor <= 0:
        raise Unfit("no radius fits: two centres coincide, or a centre lies on or outside the edge of the square")
    why = f"circles {pair[0]} and {pair[1]} overlap" if pair else f"circle {out} leaves the square"
    factor *= _LESS
    for _ in range(_TRIES):
        shrunk = [(x, y, r * factor) for x, y, r in feasible]
        if overlapping(shrunk) is None and not (walls and outside(shrunk) is not None):
            return shrunk, f"{why}; all radii were multiplied by {factor:.12g}"
        factor *= _LESS
    raise Unfit(f"{why}, and no shrinking mends it")


def _largest_factor(circles: Sequence[Circle], walls: bool) -> float:
    factor = 1.0
    for (x, y, r), (u, v, s) in combinations(circles, 2):
        if r + s > 0:
            factor = min(factor, math.hypot(x - u, y - v) / (r + s))
    for x, y, r in circles if walls else ():
        room = min(x, y, 1 - x, 1 - y)
        if r > 0 or room < 0:
            factor = min(factor, room / r if r > 0 else -1.0)
    return factor


def _measure(returned: Any, size: int | None, exact: bool, headline: int) -> Measured:
    circles = read_circles(returned, size or headline)
    shrunk, repair = shrink(circles, walls=True)
    return Measured(sum((Fraction(r) for _, _, r in shrunk), Fraction(0)), math.fsum(r for *_, r in circles), repair)


_TEXT = """\
Pack n circles, not all of one size, into the unit square [0, 1] x [0, 1] so that the sum of their radii is large.
`pack(n)` returns n rows x, y, r (a list or a numpy array of shape (n, 3)).
No two circles may overlap and none may leave the square, without any tolerance: where they do, all radii are multiplied
by the one factor that mends it before the sum is taken."""

_SEED = """\
import math


def pack(n):
    \"\"\"n rows x, y, r in the unit square.\"\"\"
    side = math.ceil(math.sqrt(n))
    step = 1.0 / side
    radius = 0.30 * step
    circles = []
    for i in range(n):
        x = (i % side + 0.5) * step
        y = (i // side + 0.5) * step
        circles.append((x, y, radius))
    return circles
"""

_OWN = "our multi-start search, 2026-11-22 (bench/maths_best.py)"
_INSTANCES = {
    10: Best(1.591012852634, _OWN),
    16: Best(2.053080418438, _OWN),
    20: Best(2.301122834498, _OWN),
    26: Best(2.6359830849176076, "AlphaEvolve's repository of problems (2025), strict"),
    32: Best(2.9395727712063233, "AlphaEvolve's repository of problems (2025)"),
}


def _task(count: int) -> MathsTask:
    def measure(returned: Any, size: int | None, exact: bool) -> Measured:
        return _measure(returned, size, exact, count)

    return MathsTask(
        name=f"circle_packing_{count}",
        title=f"{count} circles in the unit square",
        entry="pack",
        headline=count,
        instances=_INSTANCES,
        better="max",
        aliases=("run_packing",) if count == 26 else ("run_packing", "circle_packing32"),
        text=_TEXT,
        unit="sum of radii",
        source="Friedman, Packing Center, cirRsqu; Novikov et al., AlphaEvolve (2025), B.12",
        seed=_SEED,
        measure=measure,
    )


TASKS = (_task(26), _task(32))
