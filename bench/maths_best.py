"""The best values of sizes that no literature gives: a multi-start search, as the tables of `maths:` name it.

    python bench/maths_best.py circles:20:200 ratio2:12:40 tri:7:10     kind:size:seconds

Kinds: circles, rect (sum of radii), ratio2, ratio3 (largest over smallest distance, squared), tri, convex (Heilbronn).
Local search is SLSQP from random starts, numbered from 1000 on. A value counts as found where several starts reach it.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

Generator = np.random.Generator


def _slsqp(objective, gradient, start, constraint, jacobian, bounds=None, steps=400):
    found = minimize(
        objective,
        start,
        jac=lambda v: gradient,
        bounds=bounds,
        constraints={"type": "ineq", "fun": constraint, "jac": jacobian},
        method="SLSQP",
        options={"maxiter": steps, "ftol": 1e-14},
    )
    return found.x


def circles(n: int, rng: Generator, rect: bool = False) -> float:
    start = np.concatenate([rng.random(2 * n) * 0.9 + 0.05, np.full(n, 0.25 / np.sqrt(n)), [1.0] * rect])
    first, second = np.triu_indices(n, 1)
    pairs, each, size = len(first), np.arange(n), len(start)
    rows = np.arange(pairs)

    def constraint(v):
        x, y, r = v[:n], v[n : 2 * n], v[2 * n : 3 * n]
        width = v[3 * n] if rect else 1.0
        apart = (x[first] - x[second]) ** 2 + (y[first] - y[second]) ** 2 - (r[first] + r[second]) ** 2
        height = 2 - width if rect else 1.0
        return np.concatenate([apart, x - r, width - x - r, y - r, height - y - r])

    def jacobian(v):
        x, y, r = v[:n], v[n : 2 * n], v[2 * n : 3 * n]
        slopes = np.zeros((pairs + 4 * n, size))
        for at, values in ((0, x), (n, y)):
            slope = 2 * (values[first] - values[second])
            slopes[rows, at + first], slopes[rows, at + second] = slope, -slope
        slopes[rows, 2 * n + first] = slopes[rows, 2 * n + second] = -2 * (r[first] + r[second])
        for block, (at, sign) in enumerate(((0, 1), (0, -1), (n, 1), (n, -1))):
            slopes[pairs + block * n + each, at + each] = sign
            slopes[pairs + block * n + each, 2 * n + each] = -1
        if rect:
            slopes[pairs + n + each, 3 * n], slopes[pairs + 3 * n + each, 3 * n] = 1, -1
        return slopes

    gradient = np.zeros(size)
    gradient[2 * n : 3 * n] = -1
    bounds = [(0, 2 if rect else 1)] * (2 * n) + [(0, 0.5)] * n + [(0.3, 1.7)] * rect
    found = _slsqp(lambda v: -v[2 * n : 3 * n].sum(), gradient, start, constraint, jacobian, bounds)
    return found[2 * n : 3 * n].sum() if constraint(found).min() > -1e-9 else 0.0


def ratio(n: int, dimensions: int, rng: Generator) -> float:
    """Minus the ratio, so that more is better everywhere."""
    first, second = np.triu_indices(n, 1)
    rows = np.arange(len(first))
    points = rng.normal(size=(n, dimensions))
    squares = ((points[first] - points[second]) ** 2).sum(1)
    start = np.append((points / np.sqrt(squares.min())).ravel(), squares.max() / squares.min())

    def apart(v):
        points = v[:-1].reshape(n, dimensions)
        return points[first] - points[second]

    def constraint(v):
        squares = (apart(v) ** 2).sum(1)
        return np.concatenate([squares - 1, v[-1] - squares])

    def jacobian(v):
        slopes = np.zeros((len(rows), n, dimensions))
        slopes[rows, first], slopes[rows, second] = 2 * apart(v), -2 * apart(v)
        flat = slopes.reshape(len(rows), -1)
        ones = np.ones((len(rows), 1))
        return np.block([[flat, 0 * ones], [-flat, ones]])

    gradient = np.zeros(len(start))
    gradient[-1] = 1
    found = (apart(_slsqp(lambda v: v[-1], gradient, start, constraint, jacobian)) ** 2).sum(1)
    return -found.max() / found.min()


def heilbronn(n: int, rng: Generator, convex: bool) -> float:
    """In the right triangle (0, 0), (1, 0), (0, 1), an affine image of every triangle, or in the hull."""
    a, b, c = np.array(list(itertools.combinations(range(n), 3))).T
    rows, size, each = np.arange(len(a)), 2 * n + 1, np.arange(n)
    points = rng.normal(size=(n, 2)) if convex else rng.random((n, 2))
    if not convex:
        points[points.sum(1) > 1] = 1 - points[points.sum(1) > 1]
    now, best = np.append(points.T.ravel(), 0.0), 0.0

    def areas(v):
        x, y = v[:n], v[n : 2 * n]
        return (x[b] - x[a]) * (y[c] - y[a]) - (x[c] - x[a]) * (y[b] - y[a])

    for _ in range(6 if convex else 1):  # the order of the hull's corners may change
        signs, hull = np.sign(areas(now)), ConvexHull(now[:-1].reshape(2, n).T)
        if convex:
            now[:-1] /= np.sqrt(hull.volume)
        corner, after, before = hull.vertices, np.roll(hull.vertices, -1), np.roll(hull.vertices, 1)
        now[-1] = np.abs(areas(now)).min()

        def constraint(v, signs=signs, corner=corner, after=after):
            x, y, large = v[:n], v[n : 2 * n], signs * areas(v) - v[-1]
            around = 2 - (x[corner] * y[after] - x[after] * y[corner]).sum()
            return np.append(large, around) if convex else np.concatenate([large, x, y, 1 - x - y])

        def jacobian(v, signs=signs, corner=corner, after=after, before=before):
            x, y, slopes = v[:n], v[n : 2 * n], np.zeros((len(rows), size))
            for one, two, three in ((a, b, c), (b, c, a), (c, a, b)):
                slopes[rows, one], slopes[rows, n + one] = signs * (y[two] - y[three]), signs * (x[three] - x[two])
            slopes[:, -1] = -1
            edge = np.zeros((1 if convex else 3 * n, size))
            if convex:
                edge[0, corner], edge[0, n + corner] = y[before] - y[after], x[after] - x[before]
            else:
                edge[each, each] = edge[n + each, n + each] = 1
                edge[2 * n + each, each] = edge[2 * n + each, n + each] = -1
            return np.vstack([slopes, edge])

        gradient = np.zeros(size)
        gradient[-1] = -1
        now = _slsqp(lambda v: -v[-1], gradient, now, constraint, jacobian, steps=300).copy()
        x, y, smallest = now[:n], now[n : 2 * n], np.abs(areas(now)).min()
        if not convex:
            return smallest if min(x.min(), y.min(), (1 - x - y).min()) > -1e-9 else 0.0
        value = smallest / 2 / ConvexHull(np.c_[x, y]).volume
        if value < best + 1e-10:
            break
        best = value
    return best


KINDS: dict[str, Callable[[int, Generator], float]] = {
    "circles": circles,
    "rect": lambda n, rng: circles(n, rng, rect=True),
    "ratio2": lambda n, rng: ratio(n, 2, rng),
    "ratio3": lambda n, rng: ratio(n, 3, rng),
    "tri": lambda n, rng: heilbronn(n, rng, convex=False),
    "convex": lambda n, rng: heilbronn(n, rng, convex=True),
}


def main(wanted: list[str]) -> None:
    for item in wanted:
        kind, size, seconds = item.split(":")
        until, values = time.monotonic() + float(seconds), []
        while time.monotonic() < until:
            values.append(KINDS[kind](int(size), np.random.default_rng(1000 + len(values))))
        best = ", ".join(f"{abs(value):.13g}" for value in sorted(values, reverse=True)[:4])
        print(f"{kind} {size}: {len(values)} starts, best {best}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
