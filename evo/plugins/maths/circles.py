"""Circles, the sum of whose radii is to be large: in the unit square, and in a rectangle of perimeter 4.

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
from evo.plugins.maths.task import Measured, Unfit
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


def measure_square(returned: Any, size: int) -> Measured:
    """The sum of the radii."""
    circles = read_circles(returned, size)
    shrunk, repair = shrink(circles, walls=True)
    return Measured(sum((Fraction(r) for _, _, r in shrunk), Fraction(0)), math.fsum(r for *_, r in circles), repair)


def measure_rectangle(returned: Any, size: int) -> Measured:
    """2 (sum of radii) / (width + height) of the smallest rectangle around: its sum when the perimeter is 4."""
    circles = read_circles(returned, size)
    shrunk, repair = shrink(circles, walls=False)
    numbers, _ = to_integers([number for circle in shrunk for number in circle])
    radii = numbers[2::3]
    around = 0
    for centres in (numbers[0::3], numbers[1::3]):
        ends = list(zip(centres, radii, strict=True))
        around += max(c + r for c, r in ends) - min(c - r for c, r in ends)
    if around == 0 or sum(radii) == 0:
        raise Unfit("every radius is 0")
    return Measured(Fraction(2 * sum(radii), around), math.fsum(r for *_, r in circles), repair)
