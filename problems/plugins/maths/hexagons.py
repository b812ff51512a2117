"""11 or 12 unit regular hexagons in the smallest regular hexagon.

All of it is exact. An angle means the rotation by the rational point of the circle next to it (the tangent of half the
angle, a float, fixes it), so corners are numbers a + b sqrt(3), and so are the distances along the normals of sides
that are compared. Hexagons that overlap are moved apart by scaling all centres away from the outer hexagon's; the outer
side is the one that holds them, whatever the claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations
from typing import Any

from problems.plugins.maths.surd import Surd, rational
from problems.plugins.maths.task import Best, MathsTask, Measured, Unfit
from problems.plugins.maths.values import read_items, read_number, read_numbers, read_rows

_HALF, _NONE, _ONE, _TRIES = Fraction(1, 2), Fraction(0), Fraction(1), 40
_CORNERS = [(_ONE, _NONE), (_HALF, _HALF), (-_HALF, _HALF), (-_ONE, _NONE), (-_HALF, -_HALF), (_HALF, -_HALF)]
"""(x, y / sqrt(3)) of the unit hexagon at angle 0."""
_NORMALS = [(Surd(Fraction(0), _HALF), rational(_HALF)), (rational(0), rational(1)),
            (Surd(Fraction(0), -_HALF), rational(_HALF))]  # fmt: skip
"""The normals of its sides, one of each opposite pair."""
_APOTHEM = Surd(Fraction(0), _HALF)
Vector = tuple[Surd, Surd]


@dataclass(frozen=True)
class Hexagon:
    """A unit hexagon turned by a rational rotation, without a place: its corners, normals, and how far they reach."""

    corners: tuple[Vector, ...]
    normals: tuple[Vector, ...]

    def reach(self, normal: Vector) -> Surd:
        """From the centre to the corner farthest along `normal`."""
        return _largest([_dot(corner, normal) for corner in self.corners])


def turned(degrees: float) -> Hexagon:
    """The hexagon at this angle; only the angle modulo 60 degrees counts."""
    half = Fraction(math.tan(math.radians(math.remainder(degrees, 60.0)) / 2))
    cos, sin = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)

    def rotate(x: Surd, y: Surd) -> Vector:
        c, s = rational(cos), rational(sin)
        return c * x - s * y, s * x + c * y

    corners = [rotate(rational(x), Surd(_NONE, y)) for x, y in _CORNERS]
    return Hexagon(tuple(corners), tuple(rotate(x, y) for x, y in _NORMALS))


def _dot(first: Vector, second: Vector) -> Surd:
    return first[0] * second[0] + first[1] * second[1]


def _size(value: Surd) -> Surd:
    return -value if value.sign() < 0 else value


def _largest(values: Sequence[Surd]) -> Surd:
    return reduce(lambda a, b: b if a < b else a, values)


def factor_apart(
    shapes: Sequence[Hexagon], centres: Sequence[tuple[Fraction, Fraction]]
) -> tuple[float, tuple[int, int] | None]:
    """The factor by which to scale all centres so that no two hexagons overlap: (1.0, None) if none do, exactly;
    else the factor in floats, and the first two that overlap."""
    factor, pair = 1.0, None
    for i, j in combinations(range(len(shapes)), 2):
        apart = (rational(centres[j][0] - centres[i][0]), rational(centres[j][1] - centres[i][1]))
        dx, dy = float(apart[0].a), float(apart[1].a)
        if dx * dx + dy * dy > 4.0 + 1e-9:
            continue  # their circles through the corners do not meet
        axes = []
        for normal in (*shapes[i].normals, *shapes[j].normals):
            needed, there = shapes[i].reach(normal) + shapes[j].reach(normal), _size(_dot(apart, normal))
            axes.append((float(there) - float(needed), needed, there))
        _, needed, there = max(axes, key=lambda axis: axis[0])
        if there < needed:
            pair = pair or (i, j)
            factor = max(factor, min(float(n) / float(t) if float(t) > 0 else math.inf for _, n, t in axes))
    return factor, pair


def side_around(
    shapes: Sequence[Hexagon], centres: Sequence[tuple[Fraction, Fraction]], outer: Hexagon, middle: Sequence[Fraction]
) -> Fraction:
    """The side of the smallest hexagon about `middle`, turned as `outer`, that holds all; rounded up by 2**-200."""
    reaches = []
    for shape, (x, y) in zip(shapes, centres, strict=True):
        place = (rational(x - middle[0]), rational(y - middle[1]))
        # a hexagon reaches equally far along a normal and against it
        reaches += [_size(_dot(place, normal)) + shape.reach(normal) for normal in outer.normals]
    return (_largest(reaches) * Surd(Fraction(0), Fraction(2, 3))).above()


def _read(returned: Any, count: int) -> tuple[list[list[float]], list[float]]:
    """(rows x, y, angle; the outer hexagon's x, y, angle) of (inner, outer) with or without a claimed side."""
    parts = read_items(returned, "parts (inner hexagons, outer hexagon)")
    if len(parts) not in (2, 3):
        raise Unfit(f"{len(parts)} parts, where (inner hexagons, outer hexagon) belong")
    inner = read_rows(parts[0], "hexagons", count, 3)
    outer = read_numbers(parts[1], "numbers of the outer hexagon", 3)
    if max(abs(number) for row in [*inner, outer] for number in row) > 1e6:
        raise Unfit("a number beyond a million")
    if len(parts) == 3:
        read_number(parts[2])
    return inner, outer


def _measure(returned: Any, count: int) -> Measured:
    inner, outer = _read(returned, count)
    shapes, around = [turned(angle) for _, _, angle in inner], turned(outer[2])
    given = [(Fraction(x), Fraction(y)) for x, y, _ in inner]
    middle = (Fraction(outer[0]), Fraction(outer[1]))
    raw = float(side_around(shapes, given, around, middle))
    centres, scale, total, repair = given, Fraction(1), 1.0, ""
    for _ in range(_TRIES):
        factor, pair = factor_apart(shapes, centres)
        if pair is None:
            break
        if factor > 1e6:
            raise Unfit(f"hexagons {pair[0]} and {pair[1]} have their centres in one place")
        scale *= Fraction(factor * (1 + 2.0**-50))
        total = float(scale)
        repair = f"hexagons {pair[0]} and {pair[1]} overlap; all centres were moved apart by {total:.12g}"
        centres = [(middle[0] + (x - middle[0]) * scale, middle[1] + (y - middle[1]) * scale) for x, y in given]
    else:
        raise Unfit("the hexagons overlap, and no scaling mends it")
    return Measured(side_around(shapes, centres, around, middle), raw, repair)


_TEXT = """\
Pack n regular hexagons of side 1 into a regular hexagon whose side is small; all may be turned. `pack(n)` returns
(inner, outer): n rows x, y, angle in degrees (an angle of 0 has a corner to the right), and x, y, angle of the outer
hexagon. The score is the side of the smallest outer hexagon with that centre and angle that holds them all; less is
better. Hexagons may touch but not overlap, without any tolerance: where they do, all centres are first moved apart by
the one factor that mends it."""

_SEED = """\
import math


def pack(n):
    \"\"\"(n rows x, y, angle; the outer hexagon's x, y, angle).\"\"\"
    columns = 4
    inner = []
    for i in range(n):
        row, column = divmod(i, columns)
        inner.append((2.1 * column - 3.1, 2.0 * row - 2.0, 0.0))
    return inner, (0.0, 0.0, 0.0)
"""

_INSTANCES = {
    7: Best(2.886751345948129, "one hexagon and its six neighbours, the outer one turned by 30 degrees: 5 / sqrt(3)"),
    11: Best(3.9245, "Berthold et al. (2026, reported, to 4 decimals)", decimals=4),
    12: Best(3.94164, "Berthold et al. (2026, reported, to 5 decimals)", decimals=5),
}


def _task(count: int) -> MathsTask:
    def measure(returned: Any, size: int | None, exact: bool) -> Measured:
        return _measure(returned, size or count)

    return MathsTask(
        name=f"hexagon_packing_{count}",
        title=f"{count} unit hexagons in a hexagon",
        entry="pack",
        headline=count,
        instances=_INSTANCES,
        better="min",
        aliases=(f"hexagon_packing_{count}",),
        text=_TEXT,
        unit="side of the outer hexagon",
        source="Friedman, Packing Center, hexinhex; Novikov et al., AlphaEvolve (2025), B.7",
        seed=_SEED,
        measure=measure,
    )


TASKS = (_task(11), _task(12))
