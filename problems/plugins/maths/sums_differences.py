"""Sums and differences of finite sets: a set U of integers with many differences and few sums.

C6 >= 1 + log(|U - U| / |U + U|) / log(2 max U + 1) for a finite set of integers >= 0 that holds 0 (Gyarmati, Hennecart
and Ruzsa 2007). Counting is in integers of any size; the logarithms are rounded to the worse side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from problems.plugins.maths.task import Best, MathsTask, Measured, Unfit
from problems.plugins.maths.values import read_integer, read_items, without_claims

MOST_ELEMENTS = 5000
_LARGE_ELEMENTS = 1500  # of sets that hold integers beyond 64 bits
_CHUNK = 1 << 24
_AT_ONCE = 1 << 25
_DIGITS = Context(prec=60)


def read_set(returned: Any, most: int | None) -> tuple[list[int], str]:
    """The distinct integers, shifted so that the smallest is 0."""
    integers = sorted({read_integer(item) for item in read_items(without_claims(returned), "integers")})
    if len(integers) < 2:
        raise Unfit("fewer than two distinct integers")
    if most is not None and len(integers) > most:
        raise Unfit(f"{len(integers)} integers, where at most {most} were asked for")
    lowest = integers[0]
    return [item - lowest for item in integers], f"shifted by {-lowest} so that the smallest is 0" if lowest else ""


def count_sums(first: Sequence[int], second: Sequence[int]) -> int:
    """How many values a + b there are. `first` and `second` are sorted and >= 0."""
    if first[-1] + second[-1] >= 1 << 62:
        return len({a + b for a in first for b in second})
    a, b = np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
    if len(a) * len(b) <= _AT_ONCE:
        values = np.sort((a[:, None] + b[None, :]).ravel())
        return 1 + int(np.count_nonzero(values[1:] != values[:-1]))
    # a larger set: one stretch of values after the other, marked in memory that fits
    count = 0
    for low in range(0, int(a[-1] + b[-1]) + 1, _CHUNK):
        marks = np.zeros(_CHUNK, dtype=bool)
        begins, ends = np.searchsorted(b, low - a), np.searchsorted(b, low + _CHUNK - a)
        for item, begin, end in zip(a, begins, ends, strict=True):
            if begin < end:
                marks[b[begin:end] + (item - low)] = True
        count += int(np.count_nonzero(marks))
    return count


def bound_of(sums: int, differences: int, largest: int) -> Fraction:
    """The bound, at most 1e-40 below its true value."""
    ratio = _DIGITS.ln(_DIGITS.divide(Decimal(differences), Decimal(sums)))
    value = _DIGITS.divide(ratio, _DIGITS.ln(Decimal(2 * largest + 1)))
    return 1 + Fraction(value) - Fraction(1, 10**40)


def measure_set(integers: Sequence[int], count: Callable[[Sequence[int], Sequence[int]], int] = count_sums) -> Fraction:
    largest = integers[-1]
    differences = count(integers, [largest - item for item in reversed(integers)])
    if differences > 2 * largest + 1:
        raise Unfit("more differences than 2 max U + 1")
    return bound_of(count(integers, integers), differences, largest)


def _measure(returned: Any, size: int | None, exact: bool) -> Measured:
    integers, repair = read_set(returned, size)
    most = MOST_ELEMENTS if integers[-1] < 1 << 61 else _LARGE_ELEMENTS
    if len(integers) > most:
        raise Unfit(f"{len(integers)} integers; at most {most} of this size are counted")
    value = measure_set(integers)
    return Measured(value, float(value), repair)


_TEXT = """\
Find a set U of at most m integers >= 0, 0 among them, with many differences and few sums. The score is
1 + log(|U - U| / |U + U|) / log(2 max(U) + 1), where U - U are all differences of two elements and U + U all sums; it
is a lower bound on a constant C6, and more is better. `construct(m)` returns the integers. (The set is shifted so that
its smallest element is 0.) Points of a simplex in several dimensions, written as digits of one integer, do well."""

_SEED = """\
def construct(m):
    \"\"\"At most m integers >= 0.\"\"\"
    base = 9
    top = 2
    found = []
    for i in range(base**4):
        digits = (i % base, i // base % base, i // base**2 % base, i // base**3)
        if sum(digits) <= top:
            found.append(i)
    return found[:m]
"""

_OWN = "our search among simplices, 2026-11-22 (bench/maths_best.py)"

TASKS = (
    MathsTask(
        name="sums_differences",
        title="Sums and differences of finite sets, lower bound",
        entry="construct",
        headline=2003,
        instances={
            50: Best(1.1162341224, _OWN),
            300: Best(1.1279401212, _OWN),
            2003: Best(
                1.147988896509276,
                "AlphaEvolve (2025), 2,003 integers; 1.1584 with 54,265, 1.1835 with more than a list",
            ),
        },
        better="max",
        floor=1.0,
        aliases=("run",),
        text=_TEXT,
        unit="C6",
        symbol="m",
        source="Gyarmati, Hennecart and Ruzsa (2007); Novikov et al., AlphaEvolve (2025), B.6",
        seed=_SEED,
        measure=_measure,
    ),
)
