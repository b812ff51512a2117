"""Twenty-one circles with a large sum of radii in a rectangle of perimeter 4; the sides are free.

Overlaps shrink all radii (evo.plugins.maths.circles). The result is scaled so that width + height of the
smallest rectangle around it is 2: the value is 2 (sum of radii) / (width + height), an exact fraction.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from evo.plugins.maths.circles import read_circles, shrink
from evo.plugins.maths.exact import to_integers
from evo.plugins.maths.task import Best, MathsTask, Measured, Unfit


def _measure(returned: Any, size: int | None, exact: bool) -> Measured:
    circles = read_circles(returned, size or 21)
    shrunk, repair = shrink(circles, walls=False)
    numbers, _ = to_integers([number for circle in shrunk for number in circle])
    xs, ys, radii = numbers[0::3], numbers[1::3], numbers[2::3]
    extents = [
        max(c + r for c, r in zip(cs, radii, strict=True)) - min(c - r for c, r in zip(cs, radii, strict=True))
        for cs in (xs, ys)
    ]
    around = sum(extents)
    if around == 0 or sum(radii) == 0:
        raise Unfit("every radius is 0")
    return Measured(Fraction(2 * sum(radii), around), math.fsum(r for *_, r in circles), repair)


_TEXT = """\
Pack n circles, not all of one size, into a rectangle of perimeter 4 whose sides you choose, so that the sum of their
radii is large. `pack(n)` returns n rows x, y, r (a list or a numpy array of shape (n, 3)), the rectangle anywhere.
No two circles may overlap, without any tolerance: where they do, all radii are multiplied by the one factor that mends
it. Then everything is scaled so that the smallest rectangle around the circles has perimeter 4."""

_SEED = """\
import math


def pack(n):
    \"\"\"n rows x, y, r; the smallest rectangle around them is scaled to perimeter 4.\"\"\"
    columns = math.ceil(math.sqrt(n))
    radius = 0.07
    circles = []
    for i in range(n):
        x = (i % columns + 0.5) * 0.20
        y = (i // columns + 0.5) * 0.22
        circles.append((x, y, radius))
    return circles
"""

_OWN = "our multi-start search, 2026-11-22 (bench/maths_best.py)"

TASKS = (
    MathsTask(
        name="circle_packing_rect",
        title="21 circles in a rectangle of perimeter 4",
        entry="pack",
        headline=21,
        instances={
            10: Best(1.610004235780, _OWN),
            16: Best(2.059275751982, _OWN),
            21: Best(2.36583237591, "AlphaEvolve's repository of problems (2025)"),
        },
        better="max",
        aliases=("circle_packing21",),
        text=_TEXT,
        unit="sum of radii",
        source="Friedman, Packing Center, cirRrec; Novikov et al., AlphaEvolve (2025), B.13",
        seed=_SEED,
        measure=_measure,
    ),
)
