"""The kissing number: spheres that touch a central one, in 11 dimensions.

Integer vectors, none of them 0, whose smallest distance is at least their largest length give as many spheres (Novikov
et al., AlphaEvolve, B.11). All of it is counted in Python's integers, which do not overflow. Vectors in conflict are
left out one by one, the one with most conflicts first: the value is the number that remain.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from evo.plugins.maths.task import Measured, Unfit
from evo.plugins.maths.values import read_integer, read_items, without_claims

MOST_VECTORS = 1000
"""More than the upper bound in any dimension in use (868 in 11 dimensions)."""


def _read(returned: Any, dimensions: int) -> list[tuple[int, ...]]:
    rows = read_items(without_claims(returned) if dimensions > 1 else returned, "vectors", MOST_VECTORS)
    vectors = [tuple(read_integer(item) for item in read_items(row, "coordinates")) for row in rows]
    if any(len(row) != dimensions for row in vectors):
        raise Unfit(f"a vector that has not {dimensions} coordinates")
    return vectors


def largest_part(vectors: list[tuple[int, ...]]) -> int:
    """How many vectors are left without those in conflict."""
    distinct = sorted({vector for vector in vectors if any(vector)})
    if len(distinct) < 2:
        return len(distinct)
    size = max(abs(item) for vector in distinct for item in vector)
    small = size * size * len(distinct[0]) * 4 < 1 << 62
    matrix = np.array(distinct, dtype=np.int64 if small else object)
    gram = matrix.dot(matrix.T)
    norms = gram.diagonal().copy()
    squares = norms[:, None] + norms[None, :] - 2 * gram
    if not small:  # only their order counts, and ranks are compared fast
        rank = {value: at for at, value in enumerate(sorted({*norms.tolist(), *squares.ravel().tolist()}))}
        norms = np.array([rank[value] for value in norms.tolist()])
        squares = np.array([[rank[value] for value in row] for row in squares.tolist()])
    kept = np.ones(len(distinct), dtype=bool)
    longest, close = -1, np.zeros_like(squares, dtype=bool)
    while True:
        if longest != norms[kept].max():
            longest = norms[kept].max()
            close = (squares < longest) & kept[:, None] & kept[None, :]
            np.fill_diagonal(close, False)
        conflicts = close.sum(axis=1)
        if not conflicts.any():
            return int(kept.sum())
        # of those with most conflicts a longest one: it raises what all distances have to reach
        most = np.flatnonzero(conflicts == conflicts.max())
        worst = max(most, key=lambda at: norms[at])
        kept[worst] = close[worst, :] = close[:, worst] = False


def measure_vectors(returned: Any, size: int) -> Measured:
    """How many vectors of `size` coordinates are left."""
    vectors = _read(returned, size)
    count = largest_part(vectors)
    if count == 0:
        raise Unfit("no vector but 0")
    left = len(vectors) - count
    return Measured(Fraction(count), float(len(vectors)), f"{left} vectors in the way were left out" if left else "")
