"""Points: Heilbronn's problem, no three of which may span a small triangle, in an equilateral triangle and in a convex
region of the solver's choice; and points whose largest distance is small relative to their smallest.

Areas are determinants of floats, so exact integers over a power of two. In the triangle a point outside is moved to the
nearest place inside (its negative barycentric coordinates become 0); the convex region is the hull of the points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from evo.plugins.maths.exact import SQRT3_ABOVE, to_integers
from evo.plugins.maths.task import Measured, Unfit
from evo.plugins.maths.values import read_rows

Point = tuple[float, float]
_HEIGHT = math.sqrt(3) / 2
_CENTRE = (0.5, math.sqrt(3) / 6)


def _smallest_determinant(scaled: Sequence[tuple[int, int]]) -> int:
    """Twice the smallest area of a triangle of three of the points."""
    return min(
        abs((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])) for a, b, c in combinations(scaled, 3)
    )


def _scale(points: Sequence[Point]) -> tuple[list[tuple[int, int]], int]:
    numbers, unit = to_integers([number for point in points for number in point])
    return list(zip(numbers[0::2], numbers[1::2], strict=True)), unit


def _read(returned: Any, count: int) -> list[Point]:
    rows = read_rows(returned, "points", count, 2)
    if any(not max(abs(x), abs(y)) < 1e6 for x, y in rows):
        raise Unfit("a point more than a million away")
    return [(x, y) for x, y in rows]


# -- in the equilateral triangle (0, 0), (1, 0), (1/2, sqrt(3)/2) ------------------------------------------------------


def inside_triangle(point: Point) -> bool:
    """Whether the point is inside, exactly: both slanted sides are y = sqrt(3) x, compared by squares."""
    (x, y), unit = to_integers(point)
    return y >= 0 and 0 <= x <= unit and y * y <= 3 * x * x and y * y <= 3 * (unit - x) ** 2


def clip_to_triangle(point: Point) -> Point:
    """The point, or the one that its barycentric coordinates without the negative ones name."""
    if inside_triangle(point):
        return point
    third = point[1] / _HEIGHT
    second = point[0] - third / 2
    weights = [max(0.0, 1 - second - third), max(0.0, second), max(0.0, third)]
    total = sum(weights)
    x, y = (weights[1] + weights[2] / 2) / total, weights[2] / total * _HEIGHT
    step = 2.0**-54
    while not inside_triangle((x, y)):  # on an edge except for rounding: a hair towards the centre
        x, y, step = x + (_CENTRE[0] - x) * step, y + (_CENTRE[1] - y) * step, step * 2
    return x, y


def measure_triangle(returned: Any, size: int) -> Measured:
    """The smallest area of a triangle of three points over that of the whole triangle."""
    points = _read(returned, size)
    clipped = [clip_to_triangle(point) for point in points]
    moved = sum(before != after for before, after in zip(points, clipped, strict=True))
    scaled, unit = _scale(clipped)
    # the smallest area over that of the triangle, sqrt(3) / 4
    value = Fraction(2 * _smallest_determinant(scaled), unit * unit) / SQRT3_ABOVE
    raw, raw_unit = _scale(points)
    before = float(Fraction(_smallest_determinant(raw), raw_unit * raw_unit)) / 2 / (math.sqrt(3) / 4)
    return Measured(value, before, f"{moved} points lay outside and were moved to the edge" if moved else "")


# -- in the hull of the points ----------------------------------------------------------------------------------------


def _hull_determinant(scaled: Sequence[tuple[int, int]]) -> int:
    """Twice the area of the convex hull (Andrew's monotone chain)."""
    ordered = sorted(set(scaled))

    def half(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        chain: list[tuple[int, int]] = []
        for x, y in points:
            while len(chain) > 1:
                (a, b), (c, d) = chain[-2], chain[-1]
                if (c - a) * (y - b) - (x - a) * (d - b) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    hull = half(ordered) + half(ordered[::-1])
    return abs(sum(a * d - c * b for (a, b), (c, d) in zip(hull, hull[1:] + hull[:1], strict=True)))


def measure_convex(returned: Any, size: int) -> Measured:
    """The smallest area of a triangle of three points over that of the hull of all."""
    scaled, _ = _scale(_read(returned, size))
    area = _hull_determinant(scaled)
    if area == 0:
        raise Unfit("all points lie on one line")
    value = Fraction(_smallest_determinant(scaled), area)
    return Measured(value, float(value))


# -- distances ---------------------------------------------------------------------------------------------------------


def measure_ratio(returned: Any, size: int, dimensions: int) -> Measured:
    """The square of the largest distance over the smallest."""
    rows = read_rows(returned, "points", size, dimensions)
    numbers, _ = to_integers([number for row in rows for number in row])
    points = [numbers[at : at + dimensions] for at in range(0, len(numbers), dimensions)]
    squares = [sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in combinations(points, 2)]
    if min(squares) == 0:
        raise Unfit("two points coincide")
    value = Fraction(max(squares), min(squares))
    if value > 10**12:
        raise Unfit("two points all but coincide")
    return Measured(value, float(value))
