"""The reward of a set in closed form, which the estimate by drawn weights is tested against."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from vpo.scalarize import Floats


def exact_set_rewards(rewards: npt.ArrayLike, valid: npt.ArrayLike) -> Floats:
    """R(S) under Dir(1) without sampling, if a closed form is cheap: d <= 2, or at most two answers per rollout.

    (G, m, d), (G, m) -> (G,). Raises ValueError elsewhere.

    d = 2: w = (u, 1-u) with u uniform, so R is the area under the upper envelope of m lines on [0, 1].
    m = 2: with E_i iid Exp(1), E_w[max_s w.r_s] = E[max_s E.r_s] / d, and max(a, b) = b + (a - b)^+ leaves the mean
    positive part of a linear form in exponentials.
    """
    r, v = np.asarray(rewards, dtype=np.float64), np.asarray(valid, dtype=bool)
    g, m, d = r.shape
    if m == 0:
        return np.zeros(g)
    r = np.where(v[..., None], r, 0.0)
    if d == 1:
        return np.asarray(r[..., 0].max(axis=1))
    if d == 2:
        return np.array([_area_under_envelope(lines) for lines in r])
    if m == 1:
        return np.asarray(r[:, 0].mean(axis=-1))
    if m == 2:
        return np.array([b.mean() + _mean_positive_part(a - b) / d for a, b in r])
    raise ValueError(f"no cheap closed form for m = {m} answers and d = {d} objectives; sample weights instead")


def _area_under_envelope(lines: Floats) -> float:
    """Integral over u in [0, 1] of max_s (u a_s + (1-u) b_s) for lines (m, 2) of (a_s, b_s)."""
    cuts = {0.0, 1.0}
    for (a, b), (c, e) in itertools.combinations(lines, 2):
        slope = (a - b) - (c - e)
        if slope != 0 and 0 < (e - b) / slope < 1:
            cuts.add((e - b) / slope)
    u = np.array(sorted(cuts))
    middle = (u[1:] + u[:-1]) / 2  # the maximum is linear between cuts, so its midpoint value is its mean
    return float(((np.outer(middle, lines[:, 0]) + np.outer(1 - middle, lines[:, 1])).max(axis=1) * np.diff(u)).sum())


def _mean_positive_part(c: Floats) -> float:
    """E[(sum_i c_i E_i)^+] for E_i iid Exp(1).

    For distinct nonzero c the sum has density sum_i A_i exp(-x / c_i) / |c_i| on the side of the sign of c_i, with
    A_i = prod_{j != i} c_i / (c_i - c_j), so the mean positive part is sum over c_i > 0 of A_i c_i. That form breaks
    down for equal coefficients; divided differences do not: it equals the divided difference of x^d [x > 0] over the c.
    """
    c = np.sort(c)
    d = len(c)
    if c[-1] <= 0:
        return 0.0
    if c[0] >= 0:
        return float(c.sum())
    return _divided_difference(c, d)


def _divided_difference(nodes: Floats, power: int) -> float:
    """[nodes] x^power * (x > 0), nodes sorted with both signs present, repeats allowed.

    Newton's recurrence. Inside one sign the differences have closed forms (complete homogeneous polynomials above zero,
    0 below), so a division is only ever by a gap that spans zero: no cancellation for equal or near nodes.
    """
    n = len(nodes)
    first_positive = int(np.searchsorted(nodes, 0.0, side="right"))
    table = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            if i >= first_positive:
                table[i, j] = _complete_homogeneous(nodes[i : j + 1], power - (j - i))
    for length in range(1, n):
        for i in range(min(first_positive, n - length)):
            j = i + length
            if j >= first_positive:
                table[i, j] = (table[i + 1, j] - table[i, j - 1]) / (nodes[j] - nodes[i])
    return float(table[0, n - 1])


def _complete_homogeneous(x: Floats, degree: int) -> float:
    """Sum of all monomials of a degree in x: the divided difference of z^(degree + len(x) - 1) over x."""
    if degree < 0:
        return 0.0
    sums = np.zeros(degree + 1)
    sums[0] = 1.0
    for value in x:
        for k in range(1, degree + 1):
            sums[k] += value * sums[k - 1]
    return float(sums[degree])
