"""Numbers a + b sqrt(3) with rational a and b: where regular hexagons have their corners, and exact comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from problems.plugins.maths.exact import SQRT3_ABOVE, SQRT3_BELOW


@dataclass(frozen=True, slots=True)
class Surd:
    """a + b sqrt(3)."""

    a: Fraction
    b: Fraction = Fraction(0)

    def __add__(self, other: Surd) -> Surd:
        return Surd(self.a + other.a, self.b + other.b)

    def __sub__(self, other: Surd) -> Surd:
        return Surd(self.a - other.a, self.b - other.b)

    def __mul__(self, other: Surd) -> Surd:
        return Surd(self.a * other.a + 3 * self.b * other.b, self.a * other.b + self.b * other.a)

    def __neg__(self) -> Surd:
        return Surd(-self.a, -self.b)

    def __lt__(self, other: Surd) -> bool:
        return (self - other).sign() < 0

    def sign(self) -> int:
        """-1, 0 or 1, by squares if the two parts have opposite signs."""
        a, b = self.a, self.b
        if a >= 0 and b >= 0:
            return int(a > 0 or b > 0)
        if a <= 0 and b <= 0:
            return -1
        larger = a * a > 3 * b * b
        return (1 if a > 0 else -1) if larger else (1 if b > 0 else -1)

    def above(self) -> Fraction:
        """A rational number at or just above it."""
        return self.a + self.b * (SQRT3_ABOVE if self.b > 0 else SQRT3_BELOW)

    def __float__(self) -> float:
        return float(self.a + self.b * SQRT3_BELOW)


def rational(value: Fraction | int) -> Surd:
    return Surd(Fraction(value))
