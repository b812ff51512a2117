"""Erdős' minimum overlap problem: a step function h on [0, 2] with values in [0, 1] and integral 1, whose overlap with
1 - h is small at every shift.

The integral is made 1 exactly: if it is larger, h is scaled down towards 0; if it is smaller, 1 - h is scaled
down, which moves h towards 1. Both keep the values in [0, 1]; a claimed bound, and an integral that is nearly 1, count
for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from evo.plugins.maths.steps import STEP_SEED, convolve_exact, convolve_fast, read_heights, wants_exact
from evo.plugins.maths.task import Best, MathsTask, Measured

_UNIT = 1 << 64


def _blended(heights: Sequence[float]) -> tuple[list[int], int]:
    """(integers, common denominator) of h with the sum n/2."""
    whole = [min(_UNIT, max(0, round(height * _UNIT))) for height in heights]
    count, total = len(whole), sum(whole)
    if 2 * total >= count * _UNIT:
        return [count * h for h in whole], 2 * total
    rest = count * _UNIT - total
    return [2 * rest - count * (_UNIT - h) for h in whole], 2 * rest


def _overlap(heights: Sequence[float]) -> float:
    """The same in floats, for the many steps that exact arithmetic is slow for."""
    h = np.array(heights)
    count, total = len(h), h.sum()
    h = h * (count / 2 / total) if 2 * total >= count else 1 - (1 - h) * (count / 2 / (count - total))
    return float(convolve_fast(h.tolist(), (1 - h)[::-1].tolist()).max() * 2 / count)


def _measure(returned: Any, size: int | None, exact: bool) -> Measured:
    heights, repair = read_heights(returned, size)
    clipped = [min(1.0, max(0.0, height)) for height in heights]
    outside = sum(a != b for a, b in zip(heights, clipped, strict=True))
    notes = [f"{outside} heights outside [0, 1] were clipped"] if outside else []
    integral = 2 * sum(clipped) / len(clipped)
    if abs(integral - 1) > 1e-12:
        notes.append(f"the integral was {integral:.9g} and was made 1")
    h = np.array(heights) if max(map(abs, heights)) < 1e100 else np.array(clipped)
    raw = float(convolve_fast(h.tolist(), (1 - h)[::-1].tolist()).max() * 2 / len(h))
    if not wants_exact(clipped, exact):
        return Measured(_overlap(clipped), raw, "; ".join(notes))
    top, bottom = _blended(clipped)
    largest = max(convolve_exact(top, [bottom - h for h in reversed(top)]))
    return Measured(Fraction(2 * largest, bottom * bottom * len(top)), raw, "; ".join(notes))


_TEXT = """\
Erdős' minimum overlap problem. Find a step function h on [0, 2] of at most n equal steps, with values in [0, 1] and
integral 1 (the heights sum to half their number), whose overlap with its complement is small at every shift: the score
is the maximum over k of the integral of h(x) (1 - h(x + k)), that is max(correlate(h, 1 - h, "full")) * 2 / n; less is
better. `construct(n)` returns at most n heights. Heights outside [0, 1] are clipped, and h is scaled (or 1 - h) so that
the integral is exactly 1 before anything is measured."""

_BEST = Best(0.3808703105862199, "Together AI (2025), 600 steps; lower bound 0.379005 (White 2023)")

TASKS = (
    MathsTask(
        name="erdos_min_overlap",
        title="Erdős' minimum overlap, upper bound",
        entry="construct",
        headline=600,
        instances={50: _BEST, 200: _BEST, 600: _BEST},
        better="min",
        aliases=("run",),
        text=_TEXT,
        unit="largest overlap",
        source="Haugland (2016); Novikov et al., AlphaEvolve (2025), B.5",
        seed=STEP_SEED.format(height="min(1.0, max(0.0, 0.5 + 0.3 * math.cos(3.1 * (x - 0.5))))"),
        measure=_measure,
    ),
)
