"""Heilbronn's problem: 13 points, no three of which span a small triangle: evo run examples/maths/points.py

The answer runs apart. Areas are determinants of fractions, so exact; the score is relative to the hull of the points.
"""

from fractions import Fraction
from itertools import combinations, pairwise

import evo
from problems import AnswerError

statement = (
    "Place 13 points in a plane so that the smallest triangle of three of them is large, relative to the area of their "
    "convex hull. Write a Python function construct() that returns 13 rows x, y."
)
answer_format = "python"
seed_answer = """import math

def construct():
    return [(math.cos(0.5 * i) * (1 + 0.07 * i), math.sin(0.5 * i) * (1 + 0.05 * i)) for i in range(13)]
"""
target = 0.030936889  # AlphaEvolve (2025)
Point = tuple[Fraction, Fraction]


def twice_area(a: Point, b: Point, c: Point) -> Fraction:
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])


def hull(points: list[Point]) -> list[Point]:
    """The lower half of the convex hull of points in order, without its last (Andrew)."""
    chain: list[Point] = []
    for point in points:
        while len(chain) > 1 and twice_area(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain[:-1]


def score(answer: str) -> dict[str, float]:
    try:
        points = [(Fraction(x), Fraction(y)) for x, y in evo.call(answer, "construct")]
    except (TypeError, ValueError, OverflowError) as error:
        raise AnswerError(f"13 rows of two finite numbers belong here: {error}") from None
    if len(points) != 13:
        raise AnswerError(f"{len(points)} points, where 13 belong")
    first, *corners = hull(sorted(points)) + hull(sorted(points, reverse=True))
    whole = sum(twice_area(first, a, b) for a, b in pairwise(corners))
    if whole == 0:
        raise AnswerError("all points are on one line")
    return {"smallest": float(min(abs(twice_area(*three)) for three in combinations(points, 3)) / whole)}
