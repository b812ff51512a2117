"""Three inequalities about f * f, the convolution of a step function on [-1/4, 1/4] with itself.

First and third: how small can the largest value of f * f (of |f * f|, if f may be negative) be, relative to the square
    of the integral? Second: how large can the square of the 2-norm of f * f be, relative to its 1-norm times its
    largest value?
A height below 0 counts as 0 in the first two. Only proportions count, so neither huge nor tiny heights gain anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from evo.plugins.maths.steps import STEP_SEED, convolve_exact, convolve_fast, read_heights, to_whole, wants_exact
from evo.plugins.maths.task import Best, MathsTask, Measured, Unfit


def _scaled(heights: Sequence[float]) -> list[float]:
    """The heights relative to their largest, in floats."""
    largest = max(map(abs, heights))
    if largest == 0:
        raise Unfit("every height is 0")
    return [height / largest for height in heights]


def _largest_over_square(heights: Sequence[float], exact: bool, absolute: bool) -> Fraction | float:
    """2 n max(f * f) / (sum f)**2, of |f * f| if `absolute`."""
    count = len(heights)
    if wants_exact(heights, exact):
        whole = to_whole(heights)
        total = sum(whole)
        if total == 0:
            raise Unfit("the integral is 0")
        products = convolve_exact(whole, whole)
        return Fraction(2 * count * max(map(abs, products) if absolute else products), total * total)
    scaled = _scaled(heights)
    convolved = convolve_fast(scaled, scaled)
    total_float = float(np.sum(scaled))
    if abs(total_float) < 1e-9:
        raise Unfit("the integral is 0")
    return float(2 * count * (np.abs(convolved) if absolute else convolved).max() / total_float**2)


def _measure_1(returned: Any, size: int | None, exact: bool) -> Measured:
    heights, repair = read_heights(returned, size, lowest=0.0)
    value = _largest_over_square(heights, exact, absolute=False)
    return Measured(value, float(value), repair)


def _measure_2(returned: Any, size: int | None, exact: bool) -> Measured:
    heights, repair = read_heights(returned, size, lowest=0.0)
    if wants_exact(heights, exact):
        whole = to_whole(heights)
        products = [0, *convolve_exact(whole, whole), 0]
        squares = sum(a * a + a * b + b * b for a, b in zip(products, products[1:], strict=False))
        trapezia = sum(products)  # half the sum of neighbours, and both ends are 0
        value: Fraction | float = Fraction(squares, 3 * trapezia * max(products))
    else:
        scaled = _scaled(heights)
        convolved = np.maximum(convolve_fast(scaled, scaled), 0.0)
        ends = np.concatenate([[0.0], convolved, [0.0]])
        a, b = ends[:-1], ends[1:]
        value = float(np.sum(a * a + a * b + b * b) / 3 / (convolved.sum() * convolved.max()))
    return Measured(value, float(value), repair)


def _measure_3(returned: Any, size: int | None, exact: bool) -> Measured:
    heights, repair = read_heights(returned, size)
    value = _largest_over_square(heights, exact, absolute=True)
    return Measured(value, float(value), repair)


_SHAPE = "`construct(n)` returns at most n heights; only their proportions count."
_TEXT_1 = f"""\
The first autocorrelation inequality. Find a step function f >= 0 on [-1/4, 1/4] of at most n equal steps whose
convolution with itself has a small maximum beside the square of the integral: the score is
2 n max(convolve(f, f)) / sum(f)**2, an upper bound on the constant C1; less is better. {_SHAPE}
Negative heights count as 0."""
_TEXT_2 = f"""\
The second autocorrelation inequality. Find a step function f >= 0 of at most n equal steps for which the square of the
2-norm of g = f * f (its convolution with itself, linear between the values of convolve(f, f), 0 at both ends) is large
beside its 1-norm times its maximum: the score is ||g||_2^2 / (||g||_1 ||g||_inf), a lower bound on C2, below 1.
{_SHAPE} Negative heights count as 0."""
_TEXT_3 = f"""\
The third autocorrelation inequality. Find a step function f on [-1/4, 1/4] of at most n equal steps, which may be
negative in places, whose convolution with itself is small in absolute value beside the square of the integral: the
score is 2 n max(abs(convolve(f, f))) / sum(f)**2, an upper bound on C3; less is better. {_SHAPE}"""

_BEST_1 = Best(1.5028628587, "Together AI (2025), 30,000 steps")
_BEST_2 = Best(0.96258, "ImprovEvolve, edited by hand (2026, reported, to 5 decimals)", decimals=5)
_BEST_3 = Best(1.4536754656, "SimpleTES (2026), 400 steps")


def _task(
    number: int, text: str, best: Best, headline: int, height: str, measure: Any, better: Any, source: str
) -> MathsTask:
    return MathsTask(
        name=f"autocorrelation_{number}",
        title=f"Autocorrelation inequality {number}, {'lower' if better == 'max' else 'upper'} bound",
        entry="construct",
        headline=headline,
        instances={50: best, 200: best, headline: best},
        better=better,
        aliases=("run",),
        text=text,
        unit=f"C{number}",
        source=source,
        seed=STEP_SEED.format(height=height),
        measure=measure,
    )


TASKS = (
    _task(
        *(1, _TEXT_1, _BEST_1, 600, "max(0.0, 1.0 - 0.9 * abs(2.0 * x - 1.0))", _measure_1, "min"),
        "Matolcsi and Vinuesa (2010); Novikov et al., AlphaEvolve (2025), B.1",
    ),
    _task(
        *(2, _TEXT_2, _BEST_2, 600, "max(0.0, 1.0 - 1.5 * abs(2.0 * x - 1.0))", _measure_2, "max"),
        "Matolcsi and Vinuesa (2010); Novikov et al., AlphaEvolve (2025), B.2",
    ),
    _task(
        *(3, _TEXT_3, _BEST_3, 400, "1.0 - 0.9 * abs(2.0 * x - 1.0)", _measure_3, "min"),
        "Vinuesa del Rio (2010); Novikov et al., AlphaEvolve (2025), B.3",
    ),
)
