"""Points whose largest distance is small relative to their smallest: 16 in the plane, 14 in space. Always exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

from evo.plugins.maths.exact import to_integers
from evo.plugins.maths.task import Best, MathsTask, Measured, Unfit
from evo.plugins.maths.values import read_rows


def _measure(returned: Any, count: int, dimensions: int) -> Measured:
    rows = read_rows(returned, "points", count, dimensions)
    numbers, _ = to_integers([number for row in rows for number in row])
    points = [numbers[at : at + dimensions] for at in range(0, len(numbers), dimensions)]
    squares = [sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) for p, q in combinations(points, 2)]
    if min(squares) == 0:
        raise Unfit("two points coincide")
    value = Fraction(max(squares), min(squares))
    if value > 10**12:
        raise Unfit("two points all but coincide")
    return Measured(value, float(value))


_TEXT = """\
Place n points in {space} so that the ratio of the largest to the smallest distance between two of them is small.
`construct(n)` returns n rows of {dimensions} coordinates. The score is the square of that ratio; less is better."""

_SEED = {
    2: """\
import math


def construct(n):
    \"\"\"n points in the plane.\"\"\"
    points = []
    for i in range(n):
        radius = math.sqrt(i + 0.5)
        angle = 2.4 * i
        points.append((radius * math.cos(angle), radius * math.sin(angle)))
    return points
""",
    3: """\
import math


def construct(n):
    \"\"\"n points in space.\"\"\"
    points = []
    for i in range(n):
        z = 1.0 - 2.0 * (i + 0.5) / n
        radius = math.sqrt(1.0 - z * z)
        angle = 2.0 * i
        points.append((radius * math.cos(angle), radius * math.sin(angle), 1.1 * z))
    return points
""",
}

_OWN = "our multi-start search, 2026-11-22 (bench/maths_best.py)"


def _task(dimensions: int, headline: int, instances: dict[int, Best]) -> MathsTask:
    def measure(returned: Any, size: int | None, exact: bool) -> Measured:
        return _measure(returned, size or headline, dimensions)

    return MathsTask(
        name=f"distance_ratio_{dimensions}d",
        title=f"{headline} points in {dimensions} dimensions, largest over smallest distance",
        entry="construct",
        headline=headline,
        instances=instances,
        better="min",
        aliases=(f"min_max_dist_dim{dimensions}_{headline}",),
        text=_TEXT.format(space="the plane" if dimensions == 2 else "space", dimensions=dimensions),
        unit="ratio squared",
        source="Friedman, Packing Center, maxmin; Novikov et al., AlphaEvolve (2025), B.8",
        seed=_SEED[dimensions],
        measure=measure,
    )


TASKS = (
    _task(
        2,
        16,
        {
            8: Best(5.048917339522, _OWN),
            12: Best(8.464101615137, _OWN),
            16: Best(12.889229907717521, "Together AI (2025)"),
        },
    ),
    _task(
        3,
        14,
        {
            8: Best(2.414213562373, _OWN),
            11: Best(3.384171992282, _OWN),
            14: Best(4.1658497672256525, "AlphaEvolve (2025)"),
        },
    ),
)
