"""Heilbronn's problem: points no three of which span a small triangle, in an equilateral triangle and in a convex
region of the solver's choice.

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
from evo.plugins.maths.task import Best, MathsTask, Measured, Unfit
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


def _measure_triangle(returned: Any, size: int | None, exact: bool) -> Measured:
    points = _read(returned, size or 11)
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


def _measure_convex(returned: Any, size: int | None, exact: bool) -> Measured:
    scaled, _ = _scale(_read(returned, size or 13))
    area = _hull_determinant(scaled)
    if area == 0:
        raise Unfit("all points lie on one line")
    value = Fraction(_smallest_determinant(scaled), area)
    return Measured(value, float(value))


_TEXT_TRIANGLE = """\
Place n points in the equilateral triangle with corners (0, 0), (1, 0) and (1/2, sqrt(3)/2) so that the smallest of all
triangles that three of them span is large. `construct(n)` returns n rows x, y. The score is that smallest area divided
by the area of the triangle, sqrt(3)/4. A point outside, by however little, is moved to the edge first."""

_SEED_TRIANGLE = """\
import math


def construct(n):
    \"\"\"n points in the triangle (0, 0), (1, 0), (1/2, sqrt(3)/2).\"\"\"
    points = []
    for i in range(n):
        u = (0.137 + 0.618 * i) % 1.0
        v = (0.291 + 0.371 * i * i) % 1.0
        if u + v > 1.0:
            u, v = 1.0 - u, 1.0 - v
        points.append((u + v / 2.0, v * math.sqrt(3.0) / 2.0))
    return points
"""

_TEXT_CONVEX = """\
Place n points in the plane so that the smallest of all triangles that three of them span is large beside the convex
hull of all. `construct(n)` returns n rows x, y. The score is that smallest area divided by the area of the hull."""

_SEED_CONVEX = """\
import math


def construct(n):
    \"\"\"n points in the plane.\"\"\"
    points = []
    for i in range(n):
        radius = 0.25 + 0.75 * ((0.371 + i * 0.618) % 1.0)
        angle = 2.4 * i + 0.3
        points.append((radius * math.cos(angle), radius * math.sin(angle)))
    return points
"""

_OWN = "our multi-start search, 2026-11-22 (bench/maths_best.py)"
_SOURCE = "Friedman, Packing Center, Heilbronn; Novikov et al., AlphaEvolve (2025), "

TASKS = (
    MathsTask(
        name="heilbronn_triangle",
        title="Heilbronn's problem in a triangle, 11 points",
        entry="construct",
        headline=11,
        instances={
            7: Best(7 / 72, "Comellas and Yebra (2002); equal in our search, 2026-11-22"),
            9: Best(43 / 784, "Comellas and Yebra (2002)"),
            11: Best(0.036529889880030156, "AlphaEvolve (2025)"),
        },
        better="max",
        aliases=("heilbronn_triangle11",),
        text=_TEXT_TRIANGLE,
        unit="smallest area",
        source=_SOURCE + "B.9",
        seed=_SEED_TRIANGLE,
        measure=_measure_triangle,
    ),
    MathsTask(
        name="heilbronn_convex",
        title="Heilbronn's problem in a convex region, 13 points",
        entry="construct",
        headline=13,
        instances={
            7: Best(1 / 9, "equal in our search, 2026-11-22"),
            9: Best(0.064064752307, _OWN),
            11: Best(0.038403344500, _OWN),
            13: Best(0.030936889034895654, "AlphaEvolve (2025)"),
            14: Best(0.027835571458482138, "AlphaEvolve (2025)"),
        },
        better="max",
        aliases=("heilbronn_convex13",),
        text=_TEXT_CONVEX,
        unit="smallest area",
        source=_SOURCE + "B.10",
        seed=_SEED_CONVEX,
        measure=_measure_convex,
    ),
)
