"""An uncertainty inequality: how near 0 can an even function and its Fourier transform change their sign last?

f(x) = P(x) exp(-pi x**2) with P(0) = 0, P > 0 far out, and f its own transform, gives C4 <= z / (2 pi), where z is the
last change of sign of P in the variable 2 pi x**2 (Gonçalves, Oliveira e Silva, Steinerberger 2017; Cohn, Gonçalves
2019). Two forms are read:
- the double roots z_1, ..., z_k of P, with a simple one at 0: they fix P, a combination of the Laguerre polynomials
  L_0, L_2, ..., L_(4k+2) with parameter -1/2, which is found by exact elimination;
- OpenEvolve's `run()`: coefficients of the Hermite polynomials H_0, H_4, H_8, ... P(0) = 0 is made exact in both
  possible ways, by another H_0 term and by one more Hermite polynomial, and the better one counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from problems.plugins.maths.polynomials import last_sign_change, to_whole
from problems.plugins.maths.task import Best, MathsTask, Measured, Unfit
from problems.plugins.maths.values import read_numbers, without_claims

_PI_BELOW = Fraction(31415926535897932384626433832795028841971, 10**40)
MOST_ROOTS = 14
_MOST_COEFFICIENTS = 20
_LARGEST_ROOT = 300.0
_ROOT_UNIT = 1 << 32
"""Roots are rounded to multiples of 2**-32, which keeps the elimination short; the rounded roots are measured."""


def quotient_of_roots(roots: Sequence[float]) -> list[int]:
    """q with P = z (z - z_1)**2 ... (z - z_k)**2 q(z), up to a factor: integers, lowest degree first.

    z**p has the coefficient c(p, j) of L_j, where c(p, j) is binomial(p, j) w(p) up to a factor that depends only on j,
    and w(p) = (1/2)(3/2)...(p - 1/2). That those of odd j vanish are 2k + 1 equations for the 2k + 2 coefficients of q.
    """
    whole = [round(root * _ROOT_UNIT) for root in roots]
    factor = [0, 1]  # in the variable z * _ROOT_UNIT
    for root in [*whole, *whole]:
        factor = [(factor[i - 1] if i else 0) - root * (factor[i] if i < len(factor) else 0)
                  for i in range(len(factor) + 1)]  # fmt: skip
    degree = len(factor) - 1
    # back to the variable z: coefficient of z**s times _ROOT_UNIT**s, over _ROOT_UNIT**degree
    known = [value * _ROOT_UNIT**s for s, value in enumerate(factor)]
    count = 2 * len(roots) + 2
    weights = [1]  # w(p) * 2**p
    for p in range(1, degree + count):
        weights.append(weights[-1] * (2 * p - 1))
    top = degree + count - 1
    rows = []
    for j in range(1, 2 * count - 1, 2):
        row = [
            sum(h * math.comb(s + i, j) * (weights[s + i] << (top - s - i)) for s, h in enumerate(known) if h)
            for i in range(count)
        ]
        divisor = math.gcd(*row) or 1
        rows.append([item // divisor for item in row])
    return _null_vector(rows)


def _null_vector(rows: list[list[int]]) -> list[int]:
    """The null vector of n rows of n + 1 integers, by elimination without fractions (Bareiss); Unfit if it is not
    unique."""
    count, last = len(rows), 1
    for k in range(count):
        pivot = next((at for at in range(k, count) if rows[at][k]), None)
        if pivot is None:
            raise Unfit("these roots do not fix a polynomial")
        rows[k], rows[pivot] = rows[pivot], rows[k]
        lead, row = rows[k][k], rows[k]
        for i in range(k + 1, count):
            own, first = rows[i], rows[i][k]
            rows[i] = [(lead * a - first * b) // last for a, b in zip(own[k:], row[k:], strict=True)]
            rows[i][:0] = [0] * k
        last = lead
    solution = [Fraction(0)] * count + [Fraction(1)]
    for k in reversed(range(count)):
        row = rows[k]
        bottom = math.lcm(*(f.denominator for f in solution[k + 1 :]))
        parts = [f.numerator * (bottom // f.denominator) for f in solution[k + 1 :]]
        total = sum(a * part for a, part in zip(row[k + 1 :], parts, strict=True))
        solution[k] = Fraction(-total, bottom * row[k])
    return to_whole(solution)


def hermite_polynomials(count: int) -> list[list[int]]:
    """H_0, H_4, ..., H_(4 (count - 1)) in the variable z = x**2, lowest degree first."""
    polynomials = []
    for n in range(0, 4 * count, 4):
        # H_n(x) = n! sum over m of (-1)**m (2 x)**(n - 2 m) / (m! (n - 2 m)!)
        polynomial = [0] * (n // 2 + 1)
        for m in range(n // 2 + 1):
            size = math.factorial(n) // (math.factorial(m) * math.factorial(n - 2 * m))
            polynomial[n // 2 - m] = (-1) ** m * size * 2 ** (n - 2 * m)
        polynomials.append(polynomial)
    return polynomials


def _combine(coefficients: Sequence[Fraction], polynomials: Sequence[Sequence[int]]) -> list[int]:
    total = [Fraction(0)] * len(polynomials[-1])
    for c, polynomial in zip(coefficients, polynomials, strict=True):
        for i, p in enumerate(polynomial):
            total[i] += c * p
    return to_whole(total)


def bound_of_hermite(coefficients: Sequence[float]) -> Fraction:
    """The better of the two ways to make P(0) = 0 exact."""
    given = [Fraction(c) for c in coefficients]
    while given and given[-1] == 0:
        given.pop()
    if not given:
        raise Unfit("every coefficient is 0")
    polynomials = hermite_polynomials(len(given) + 1)
    at_zero = sum((c * p[0] for c, p in zip(given, polynomials, strict=False)), Fraction(0))
    readings = [_combine([*given, -at_zero / polynomials[-1][0]], polynomials)]
    if len(given) > 1:
        readings.append(_combine([given[0] - at_zero, *given[1:]], polynomials[:-1]))
    bounds = [bound for reading in readings if any(reading) and (bound := last_sign_change(reading))]
    if not bounds:
        raise Unfit("the polynomial has no change of sign")
    return min(bounds) / (2 * _PI_BELOW)


def bound_of_roots(roots: Sequence[float]) -> Fraction:
    if any(not 0 < root <= _LARGEST_ROOT for root in roots):
        raise Unfit(f"a root outside (0, {_LARGEST_ROOT:g}]")
    if len({round(root * _ROOT_UNIT) for root in roots}) < len(roots):
        raise Unfit("two roots coincide")
    place = last_sign_change(quotient_of_roots(roots))
    if place is None:
        raise Unfit("the polynomial has no change of sign")
    return place / (2 * _PI_BELOW)


def _measure(returned: Any, size: int | None, exact: bool) -> Measured:
    if size is None:  # OpenEvolve's run(): (coefficients, claims...)
        coefficients = read_numbers(without_claims(returned), "coefficients", most=_MOST_COEFFICIENTS)
        value = bound_of_hermite(coefficients)
    else:
        roots = read_numbers(returned, "roots", most=MOST_ROOTS)
        if not 0 < len(roots) <= size:
            raise Unfit(f"{len(roots)} roots, where 1 to {size} were asked for")
        value = bound_of_roots(roots)
    return Measured(value, float(value))


_TEXT = """\
An uncertainty inequality. Choose at most k distinct numbers 0 < z_i <= 300. They fix the polynomial P(z), a combination
of the Laguerre polynomials L_0, L_2, ..., L_(4k+2) with parameter -1/2, that is 0 at z = 0 and has a double root at
every z_i. The score is the last place z > 0 where P changes its sign, divided by 2 pi: an upper bound on a constant C4;
less is better. `construct(k)` returns the roots. P is found in exact arithmetic. Good choices begin near 3.6, 5.7, 33
and have nothing between 6 and 30."""

_SEED = """\
def construct(k):
    \"\"\"At most k double roots between 0 and 300.\"\"\"
    roots = [4.2, 5.1, 31.0, 42.0]
    step = 12.5
    while len(roots) < min(k, 6):
        roots.append(roots[-1] + step)
    return roots[:k]
"""

_AE = "AlphaEvolve's repository of problems (2025)"

TASKS = (
    MathsTask(
        name="uncertainty",
        title="An uncertainty inequality, upper bound",
        entry="construct",
        headline=12,
        instances={
            4: Best(0.342255034567, "our search, 2026-11-22 (bench/maths_best.py)"),
            6: Best(0.328270617431, _AE),
            8: Best(0.327920330505, _AE),
            12: Best(0.3215872333529007, "AlphaEvolve (2025), 12 roots"),
        },
        better="min",
        aliases=("run",),
        text=_TEXT,
        unit="C4",
        symbol="k",
        source="Cohn and Gonçalves (2019); Novikov et al., AlphaEvolve (2025), B.4",
        seed=_SEED,
        measure=_measure,
    ),
)
