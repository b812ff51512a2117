"""26 circles in the unit square, with a large sum of radii: evo run examples/maths/circles.py

The answer runs apart, and its circles are measured here in exact arithmetic. OpenEvolve's best reported sum is 2.634.
"""

from fractions import Fraction
from itertools import combinations
from math import isqrt

import evo
from problems import AnswerError

statement = (
    "Pack 26 circles into the unit square so that the sum of their radii is large. Write a Python function pack() that "
    "returns rows x, y, r; the first 26 count, without those whose centre is outside. If circles overlap or leave the "
    "square, all radii are multiplied by the factor that mends it."
)
answer_format = "python"
seed_answer = """def pack():
    side = 6
    step = 1 / side
    return [((i % side + 0.5) * step, (i // side + 0.5) * step, 0.3 * step) for i in range(26)]
"""
target = 2.6359830849  # AlphaEvolve's repository of problems (2025)


def root(number: Fraction) -> Fraction:
    """The square root, rounded down at 2**-100."""
    return Fraction(isqrt((number.numerator << 200) // number.denominator), 1 << 100)


def score(answer: str) -> dict[str, float]:
    try:
        rows = [(Fraction(x), Fraction(y), Fraction(r)) for x, y, r in evo.call(answer, "pack")]
    except (TypeError, ValueError, OverflowError) as error:
        raise AnswerError(f"rows of three finite numbers belong here: {error}") from None
    circles = [(x, y, r) for x, y, r in rows[:26] if 0 < x < 1 and 0 < y < 1 and r > 0]
    room = [Fraction(1), *(min(x, 1 - x, y, 1 - y) / r for x, y, r in circles)]
    room += [root((x - u) ** 2 + (y - v) ** 2) / (r + s) for (x, y, r), (u, v, s) in combinations(circles, 2)]
    return {"radii": float(min(room) * sum(r for *_, r in circles))}
