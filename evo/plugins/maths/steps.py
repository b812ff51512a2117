"""Problems about step functions: three inequalities about f * f, and Erdős' minimum overlap.

f is a step function on [-1/4, 1/4], and f * f its convolution with itself. How small can the largest value of f * f (of
|f * f|, if f may be negative) be, relative to the square of the integral? How large can the square of the 2-norm of
f * f be, relative to its 1-norm times its largest value? A height below 0 counts as 0 where f may not be negative. Only
proportions count, so neither huge nor tiny heights gain anything.

Erdős: h on [0, 2] with values in [0, 1] and integral 1, whose overlap with 1 - h is small at every shift. The integral
is made 1 exactly: if it is larger, h is scaled down towards 0; if it is smaller, 1 - h is scaled down, which moves h
towards 1. Both keep the values in [0, 1]; a claimed bound, and an integral that is nearly 1, count for nothing.

Everything is exact: the heights become integers of 64 bits in the same proportion (the rounded function is measured),
and convolutions are integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from evo.plugins.maths.exact import convolve, quantise
from evo.plugins.maths.task import Measured, Unfit
from evo.plugins.maths.values import read_numbers, without_claims

_UNIT = 1 << 64


def read_heights(returned: Any, most: int) -> list[float]:
    """The heights, at most `most` of them. A tuple (heights, claims...) counts by its heights alone."""
    heights = read_numbers(without_claims(returned), "heights")
    if not heights:
        raise Unfit("no heights")
    if len(heights) > most:
        raise Unfit(f"{len(heights)} heights, where at most {most} were asked for")
    return heights


def _raise_to_zero(heights: Sequence[float]) -> tuple[list[float], str]:
    """No height below 0, and the repair."""
    below = sum(height < 0 for height in heights)
    return [max(0.0, height) for height in heights], f"{below} heights below 0 were raised" if below else ""


def _to_whole(heights: Sequence[float]) -> list[int]:
    """Integers in the proportion of the heights; Unfit if all are 0."""
    whole = quantise(heights)
    if not any(whole):
        raise Unfit("every height is 0")
    return whole


def _bound(heights: Sequence[float], repair: str = "") -> Measured:
    """2 n max |f * f| / (sum f)**2."""
    whole = _to_whole(heights)
    total = sum(whole)
    if total == 0:
        raise Unfit("the integral is 0")
    value = Fraction(2 * len(whole) * max(map(abs, convolve(whole, whole))), total * total)
    return Measured(value, float(value), repair)


def measure_maximum(returned: Any, size: int) -> Measured:
    """The first inequality: f >= 0."""
    return _bound(*_raise_to_zero(read_heights(returned, size)))


def measure_norms(returned: Any, size: int) -> Measured:
    """The second inequality: f >= 0, and f * f linear between its values, 0 at both ends."""
    heights, repair = _raise_to_zero(read_heights(returned, size))
    whole = _to_whole(heights)
    products = [0, *convolve(whole, whole), 0]
    squares = sum(a * a + a * b + b * b for a, b in zip(products, products[1:], strict=False))
    value = Fraction(squares, 3 * sum(products) * max(products))  # half the sum of neighbours, and both ends are 0
    return Measured(value, float(value), repair)


def measure_absolute(returned: Any, size: int) -> Measured:
    """The third inequality: f may be negative."""
    return _bound(read_heights(returned, size))


def _blended(heights: Sequence[float]) -> tuple[list[int], int]:
    """(integers, common denominator) of h with the sum n/2."""
    whole = [min(_UNIT, max(0, round(height * _UNIT))) for height in heights]
    count, total = len(whole), sum(whole)
    if 2 * total >= count * _UNIT:
        return [count * h for h in whole], 2 * total
    rest = count * _UNIT - total
    return [2 * rest - count * (_UNIT - h) for h in whole], 2 * rest


def measure_overlap(returned: Any, size: int) -> Measured:
    """Erdős' overlap, the largest over all shifts."""
    heights = read_heights(returned, size)
    clipped = [min(1.0, max(0.0, height)) for height in heights]
    outside = sum(a != b for a, b in zip(heights, clipped, strict=True))
    notes = [f"{outside} heights outside [0, 1] were clipped"] if outside else []
    integral = 2 * sum(clipped) / len(clipped)
    if abs(integral - 1) > 1e-12:
        notes.append(f"the integral was {integral:.9g} and was made 1")
    h = np.array(heights) if max(map(abs, heights)) < 1e100 else np.array(clipped)
    before = 1 << (2 * len(h)).bit_length()
    shifted = np.fft.irfft(np.fft.rfft(h, before) * np.fft.rfft((1 - h)[::-1], before), before)[: 2 * len(h) - 1]
    top, bottom = _blended(clipped)
    largest = max(convolve(top, [bottom - h for h in reversed(top)]))
    value = Fraction(2 * largest, bottom * bottom * len(top))
    return Measured(value, float(shifted.max() * 2 / len(h)), "; ".join(notes))
