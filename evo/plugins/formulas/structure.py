"""What logarithms and curvatures show of a target before any search: factors that divide it, monomials that it depends
on, and sums of powers with exponents that need not be whole.

Sources: separability after AI Feynman (Udrescu and Tegmark 2020); the eigenvectors of an average Hessian as the
directions on which a function depends, after active subspaces (Constantine 2015), here in logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.grammar import Formula, apply, constant, variable
from evo.plugins.formulas.ledger import Ledger
from evo.plugins.formulas.regression import Target, TermColumns, find_prefactors, fit_sum, solve
from evo.plugins.formulas.terms import monomial, product, raised

Prefactor = tuple[Formula, tuple[int, ...]]
"""A factor of y, and the indices of the variables that the rest may depend on."""
_TRIMMED = 5
_LARGEST_F = 2.3
"""Beyond the 99% point of F for the numbers of rows and terms here."""
MOST_PREFACTORS = 4


def _positive(ledger: Ledger, indices: Sequence[int]) -> list[int]:
    return [i for i in indices if float(ledger.x[i].min()) > 1e-9 and float(ledger.x[i].std()) > 1e-9]


def _trimmed_solve(columns: Reals, z: Reals) -> tuple[Reals, Reals, float] | None:
    """Least squares without the rows whose residual is far below the others: where a sum of either sign is near 0, its
    logarithm says nothing. Coefficients, their standard errors, and the deviation of the rows kept."""
    root = residual = np.ones_like(z)
    coefficients = errors = np.zeros(len(columns) + 1)
    for _ in range(_TRIMMED):
        solved = solve(columns, z, root)
        if solved is None:
            return None
        coefficients, errors = solved
        residual = z - coefficients[:-1] @ columns - coefficients[-1]
        scale = 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) + 1e-12
        root = 1 / np.sqrt(1 + (residual / (2 * scale)) ** 2)
    kept = root * residual
    deviation = math.sqrt(float(kept @ kept) / max(1, len(z) - len(columns) - 1))
    return coefficients, errors, deviation


def find_factors(ledger: Ledger, indices: Sequence[int]) -> list[Prefactor]:
    """Candidates for factors of y, at most MOST_PREFACTORS, those that explain most variables first."""
    factors: list[Prefactor] = []
    for exponents in find_prefactors(ledger, indices):
        factors.append((monomial(exponents), tuple(i for i in indices if i not in exponents)))
    exponents = _independent_factors(ledger, indices)
    if exponents:
        factors.append((monomial(exponents), tuple(i for i in indices if i not in exponents)))
    factors.sort(key=lambda each: len(each[1]))
    unique = {each[0]: each for each in reversed(factors)}
    return list(reversed(unique.values()))[:MOST_PREFACTORS]


def _independent_factors(ledger: Ledger, indices: Sequence[int]) -> dict[int, float]:
    """Variables with exponents k such that y / x**k no longer depends on x, by an F-test in a quadratic model.

    Logarithms give the slope near which k is tried. The test is in y itself, so that y may change its sign.
    """
    x, y = ledger.x, ledger.y
    usable = [i for i in indices if float(np.abs(x[i]).min()) > 1e-9 and float(x[i].std()) > 1e-9]
    n, d = len(y), len(indices)
    pairs = [(a, b) for a in range(d) for b in range(a, d)]
    if not usable or float(np.abs(y).min()) == 0 or 1 + d + len(pairs) > 0.6 * n:
        return {}
    ledger.spend(_TRIMMED)
    solved = _trimmed_solve(np.log(np.abs(x[usable])), np.log(np.abs(y)))
    if solved is None:
        return {}
    coefficients, errors, deviation = solved
    scaled = x[list(indices)]
    scaled = (scaled - scaled.mean(1, keepdims=True)) / np.maximum(scaled.std(1, keepdims=True), 1e-300)
    design = np.vstack([np.ones(n), scaled, [scaled[a] * scaled[b] for a, b in pairs]])
    whole, _r = np.linalg.qr(design.T)
    exponents: dict[int, float] = {}
    for place, index in enumerate(usable):
        slope, reach = float(coefficients[place]), 4 * float(errors[place]) * deviation + 0.3
        own = list(indices).index(index)
        gone = {1 + own, *(1 + d + k for k, pair in enumerate(pairs) if own in pair)}
        reduced, _r = np.linalg.qr(design[[k for k in range(len(design)) if k not in gone]].T)
        best = _LARGEST_F
        for k in (math.floor(slope), math.ceil(slope)):
            if not k or abs(k) > 4 or abs(slope - k) > reach:
                continue
            ledger.spend_pass(len(design))
            z = y / x[index] ** k
            left, without = (float(((z - q @ (q.T @ z)) ** 2).sum()) for q in (whole, reduced))
            statistic = (without - left) / len(gone) / max(left / (n - len(design)), 1e-300)
            if left <= 1e-20 * float(z @ z):
                statistic = 0.0 if without <= 1e-18 * float(z @ z) else math.inf
            if statistic < best:
                best, exponents[index] = statistic, float(k)
    return exponents


def fit_products(ledger: Ledger, columns: TermColumns, indices: Sequence[int], functions: Sequence[int]) -> None:
    """y = c * product of powers of variables, their sines and cosines, and exponentials: forward selection in
    logarithms, then exponents rounded and the product scored as it is."""
    y = ledger.y
    if float(np.abs(y).min()) == 0:
        return
    z = np.log(np.abs(y))
    factors: list[Formula] = []
    logs: list[Reals] = []
    for i in indices:
        x = ledger.x[i]
        for factor in (variable(i), *(apply(f, variable(i)) for f in (g.SIN, g.COS) if f in functions)):
            values = columns.get(factor)
            if values is not None and float(np.abs(values).min()) > 1e-12:
                column = np.log(np.abs(values))
                if float(column.std()) > 1e-9:
                    factors.append(factor)
                    logs.append(column)
        if g.EXP in functions:
            factors += [apply(g.EXP, variable(i)), apply(g.EXP, apply(g.SQUARE, variable(i)))]
            logs += [x, x * x]
    if not factors:
        return
    matrix = np.array(logs)
    chosen: list[int] = []
    residual = z - z.mean()
    total = float(residual @ residual)
    for _ in range(min(len(indices) + 3, len(factors), len(y) // 4)):
        ledger.spend_pass(len(factors))
        centred = matrix - matrix.mean(1, keepdims=True)
        if chosen:
            basis, _r = np.linalg.qr(centred[chosen].T)
            centred = centred - (centred @ basis) @ basis.T
        norms = (centred * centred).sum(1)
        gains = np.where(norms > 1e-8 * len(y), (centred @ residual) ** 2 / np.maximum(norms, 1e-300), 0.0)
        best = int(gains.argmax())
        if gains[best] <= 0:
            break
        chosen.append(best)
        solved = solve(matrix[chosen], z, np.ones_like(z))
        if solved is None:
            return
        residual = z - solved[0][:-1] @ matrix[chosen] - solved[0][-1]
        if float(residual @ residual) < 1e-3 * total:
            _add_product(ledger, columns, [factors[k] for k in chosen], solved[0][:-1].tolist())
            ledger.stop_if_exact()
        if float(residual @ residual) < 1e-18 * total:
            return


def _add_product(ledger: Ledger, columns: TermColumns, factors: Sequence[Formula], exponents: Sequence[float]) -> None:
    above: list[Formula] = []
    below: list[Formula] = []
    for factor, exponent in zip(factors, exponents, strict=True):
        if factor.codes[-1] == g.EXP:
            inner = factor.arguments()[0]
            number = float(round(exponent)) if abs(exponent - round(exponent)) < 1e-6 else exponent
            if number:
                above.append(apply(g.EXP, inner if number == 1 else apply(g.MUL, constant(number), inner)))
            continue
        half = round(2 * exponent) / 2
        if not half or abs(half) > 6:
            continue
        powered = raised(factor, abs(half))
        (above if half > 0 else below).append(powered)
    if not above and not below:
        return
    top = product(above) if above else g.fixed(1)
    whole = apply(g.DIV, top, product(below)) if below else top
    scaled = apply(g.MUL, constant(_scale(ledger, columns, whole)), whole)
    ledger.fit(scaled, 3)


def _scale(ledger: Ledger, columns: TermColumns, term: Formula) -> float:
    values = columns.get(term)
    return 1.0 if values is None else float(values @ ledger.y) / max(float(values @ values), 1e-300)


def find_monomials(ledger: Ledger, target: Target) -> list[Formula]:
    """Monomials of several variables on which z may depend as a whole, from a quadratic model in logarithms: the
    gradient, and the eigenvectors of the curvature with the largest eigenvalues."""
    usable = _positive(ledger, target.indices)
    d, z = len(usable), target.z
    if d < 2 or 1 + d + d * (d + 1) // 2 > 0.7 * len(z):
        return []
    logs = np.log(ledger.x[usable])
    logs = logs - logs.mean(1, keepdims=True)
    pairs = [(a, b) for a in range(d) for b in range(a, d)]
    columns = np.vstack([logs, [logs[a] * logs[b] for a, b in pairs]])
    goals = [z] + ([np.log(np.abs(z))] if float(np.abs(z).min()) > 0 else [])
    directions: list[Reals] = []
    for goal in goals:
        ledger.spend_pass(len(columns))
        solved = solve(columns, goal, np.ones_like(goal))
        if solved is None:
            continue
        coefficients = solved[0]
        hessian = np.zeros((d, d))
        for (a, b), value in zip(pairs, coefficients[d:-1], strict=True):
            hessian[a, b] += value
            hessian[b, a] += value
        values, vectors = np.linalg.eigh(hessian)
        order = np.argsort(-np.abs(values))
        directions += [coefficients[:d], vectors[:, order[0]], vectors[:, order[1]]]
    monomials: dict[Formula, None] = {}
    for direction in directions:
        top = float(np.abs(direction).max())
        if not top > 0:
            continue
        for scale in (1, 2):
            whole = [round(scale * float(v) / top) / 1 for v in direction]
            if sum(1 for e in whole if e) < 2:
                continue
            exponents = {i: float(e) for i, e in zip(usable, whole, strict=True) if e}
            if next(iter(exponents.values())) < 0:
                exponents = {i: -e for i, e in exponents.items()}
            monomials[monomial(exponents)] = None
            if len(exponents) > 2:
                for left_out in exponents:
                    monomials.setdefault(monomial({i: e for i, e in exponents.items() if i != left_out}))
    return list(monomials)


def monomial_terms(monomials: Sequence[Formula], indices: Sequence[int], functions: Sequence[int]) -> list[Formula]:
    """Terms of a library around given monomials: functions of them, and these times variables."""
    unary = [f for f in (g.EXP, g.SIN, g.COS, g.TANH, g.LOG, g.SQRT, g.SQUARE) if f in functions]
    terms: list[Formula] = [apply(g.LOG, variable(i)) for i in indices if g.LOG in functions]
    trig = [apply(f, variable(i)) for i in indices for f in (g.SIN, g.COS) if f in functions]
    for u in monomials:
        inverse = apply(g.DIV, g.fixed(1), u)
        of_it = [u, inverse]
        for v in (u, inverse):
            of_it += [apply(f, v) for f in unary]
            if g.EXP in functions:
                of_it += [apply(g.EXP, apply(g.NEG, v)), apply(g.MUL, v, apply(g.EXP, v))]
        terms += of_it
        terms += [apply(g.MUL, v, t) for v in (u, inverse) for t in trig if not set(t.variables) & set(u.variables)]
    for u in monomials:
        inverse = apply(g.DIV, g.fixed(1), u)
        of_it = [u, inverse, *(apply(f, v) for f in unary for v in (u, inverse))]
        for i in indices:
            terms += [apply(g.MUL, variable(i), term) for term in of_it]
    return list(dict.fromkeys(terms))


def fit_inner_power(ledger: Ledger, columns: TermColumns, target: Target) -> float:
    """z = c0 + c1 * product of powers, exponents from logarithms; the loss, inf if there is none."""
    usable = _positive(ledger, target.indices)
    z = target.z
    if not usable or float(np.abs(z).min()) == 0 or len(usable) + 2 >= len(z) // 2:
        return math.inf
    ledger.spend(1)
    solved = solve(np.log(ledger.x[usable]), np.log(np.abs(z)), np.ones_like(z))
    if solved is None:
        return math.inf
    best = math.inf
    for scale in (1, 2):
        exponents = {i: round(scale * float(e)) / scale for i, e in zip(usable, solved[0], strict=False)}
        exponents = {i: float(e) for i, e in exponents.items() if e}
        if not exponents or max(map(abs, exponents.values())) > 6:
            continue
        kept, matrix = columns.matrix([monomial(exponents)])
        if kept:
            fitted = fit_sum(ledger, target, kept, matrix)
            best = min(best, math.inf if fitted is None else fitted.loss)
    return best
