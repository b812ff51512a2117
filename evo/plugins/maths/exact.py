"""Exact arithmetic on floats: every float is an integer over a power of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

SQRT3_BELOW = Fraction(math.isqrt(3 << 400), 1 << 200)
SQRT3_ABOVE = SQRT3_BELOW + Fraction(1, 1 << 200)
"""The square root of 3 within 2**-200."""


def to_integers(values: Sequence[float]) -> tuple[list[int], int]:
    """(integers, unit): every value is its integer / unit, exactly."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = max((bottom for _, bottom in ratios), default=1)
    return [top * (unit // bottom) for top, bottom in ratios], unit


def quantise(values: Sequence[float], bits: int = 64) -> list[int]:
    """Integers in the proportion of `values`, the largest of `bits` bits: exact except for relatively tiny values.

    Tiny values are rounded; the rounded construction is then measured exactly.
    """
    largest = max(map(abs, values), default=0.0)
    if largest == 0.0:
        return [0] * len(values)
    shift = bits - math.frexp(largest)[1]
    return [_shifted(value, shift) for value in values]


def _shifted(value: float, shift: int) -> int:
    if shift <= 900:
        return round(math.ldexp(value, shift))
    return round(math.ldexp(math.ldexp(value, 900), shift - 900))  # of a denormal number


def convolve(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The full convolution of two lists of integers, through one product of two large integers (Kronecker)."""
    largest = [max(1, *map(abs, values)) for values in (first, second)]
    most = largest[0] * largest[1] * min(len(first), len(second))
    size = (most.bit_length() + 2 + 7) // 8
    count = len(first) + len(second) - 1
    product = _packed(first, size) * _packed(second, size)
    # half of a digit's range added to every digit makes all of them positive
    half = 1 << (8 * size - 1)
    product += int.from_bytes((b"\0" * (size - 1) + b"\x80") * count, "little")
    data = product.to_bytes(size * count + 1, "little")
    return [int.from_bytes(data[at : at + size], "little") - half for at in range(0, size * count, size)]


def _packed(values: Sequence[int], size: int) -> int:
    above = b"".join((value if value > 0 else 0).to_bytes(size, "little") for value in values)
    below = b"".join((-value if value < 0 else 0).to_bytes(size, "little") for value in values)
    return int.from_bytes(above, "little") - int.from_bytes(below, "little")


def float_below(value: Fraction) -> float:
    """The largest float that is not above `value`."""
    number = float(value)
    return math.nextafter(number, -math.inf) if Fraction(number) > value else number
