"""Polynomials with integer coefficients, lowest degree first: where their last change of sign on (0, infinity) is.

Descartes' rule and bisection (Vincent, Collins and Akritas): no variation in the signs of the transformed coefficients
means no root in an interval, one variation exactly one simple root. All of it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

_DEPTH = 160
"""An interval of 2**-160 that is still in doubt counts as one with a change of sign: the worse reading."""
_STEPS = 3000
"""Halvings and looks in all."""


def to_whole(coefficients: Sequence[Fraction]) -> list[int]:
    """Integers in the same proportion, without a common divisor."""
    bottom = math.lcm(*(c.denominator for c in coefficients))
    whole = [c.numerator * (bottom // c.denominator) for c in coefficients]
    divisor = math.gcd(*whole) or 1
    return [c // divisor for c in whole]


def last_sign_change(coefficients: Sequence[int], bits: int = 100) -> Fraction | None:
    """An upper bound, within 2**-bits of it, on the last place x > 0 where the polynomial changes its sign.

    None if it changes it nowhere. Two roots closer than 2**-160 of the whole range count as a change.
    """
    polynomial = list(coefficients)
    while polynomial and polynomial[-1] == 0:
        polynomial.pop()
    while polynomial and polynomial[0] == 0:
        polynomial.pop(0)
    if len(polynomial) < 2:
        return None
    power = _root_bound(polynomial)
    degree = len(polynomial) - 1
    # x = 2**power y, so that every positive root has y in (0, 1)
    scaled = [c << power * i for i, c in enumerate(polynomial)]
    # the polynomial on (place, place + 1) / 2**depth, as one on (0, 1); None for a root at place / 2**depth itself
    stack: list[tuple[list[int] | None, int, int]] = [(scaled, 0, 0)]
    for _ in range(_STEPS):
        if not stack:
            return None
        current, place, depth = stack.pop()
        if current is None:
            return Fraction(place) * Fraction(2) ** (power - depth)
        changes = _variations_inside(current)
        if changes == 0:
            continue
        if (changes == 1 and depth - power >= bits) or depth - power >= _DEPTH:
            return Fraction(place + 1) * Fraction(2) ** (power - depth)
        left = [c << (degree - i) for i, c in enumerate(current)]
        right = _shift(left)
        stack.append((left, 2 * place, depth + 1))
        if right[0] == 0:
            stack.append((None, 2 * place + 1, depth + 1))
        stack.append((right, 2 * place + 1, depth + 1))
    # polynomials made to take forever: the end of the doubtful range, beyond which the sign does not change
    return max(Fraction(place + 1) * Fraction(2) ** (power - depth) for _, place, depth in stack) if stack else None


def _root_bound(polynomial: Sequence[int]) -> int:
    """k >= 0 with all roots below 2**k (Lagrange and Zassenhaus: twice the largest |c[n-i] / c[n]| ** (1 / i))."""
    lead, degree, power = abs(polynomial[-1]).bit_length(), len(polynomial) - 1, 0
    for i in range(1, degree + 1):
        size = abs(polynomial[degree - i]).bit_length() - lead + 1
        power = max(power, -(-size // i) + 1)
    return power


def _shift(polynomial: Sequence[int]) -> list[int]:
    """p(x + 1)."""
    shifted = list(polynomial)
    for start in range(len(shifted) - 1):
        for at in range(len(shifted) - 2, start - 1, -1):
            shifted[at] += shifted[at + 1]
    return shifted


def _variations_inside(polynomial: Sequence[int]) -> int:
    """The sign changes among the coefficients of (x + 1)**n p(1 / (x + 1)): no fewer than there are roots in (0, 1),
    and as many or an even number more."""
    signs = [c > 0 for c in _shift(list(reversed(polynomial))) if c]
    return sum(a != b for a, b in zip(signs, signs[1:], strict=False))
