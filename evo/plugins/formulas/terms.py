"""Building blocks of linear models: monomials, functions of monomials, and the links between a sum and the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement
from itertools import product as cartesian

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.grammar import Formula, apply, constant, fixed, variable


@dataclass(frozen=True)
class Link:
    """y = g(z) around a model that is linear in its coefficients.

    inverse: z of y, not finite if there is none; forward: y of z; slope: dy/dz as a function of y, with which the
    rows are weighted so that the error of z measures that of y; wrap: g of a formula; needs: functions of the grammar
    """

    name: str
    inverse: Callable[[Reals], Reals]
    forward: Callable[[Reals], Reals]
    slope: Callable[[Reals], Reals]
    wrap: Callable[[Formula], Formula]
    needs: tuple[int, ...]


def _reciprocal(formula: Formula) -> Formula:
    return apply(g.DIV, fixed(1), formula)


LINKS: dict[str, Link] = {
    link.name: link
    for link in (
        Link("identity", lambda y: y, lambda z: z, np.ones_like, lambda f: f, ()),
        Link("reciprocal", lambda y: 1 / y, lambda z: 1 / z, np.square, _reciprocal, (g.DIV,)),
        Link("exp", np.log, np.exp, lambda y: y, lambda f: apply(g.EXP, f), (g.EXP,)),
        Link(
            "sqrt",
            lambda y: np.where(y >= 0, y * y, np.nan),
            np.sqrt,
            lambda y: 0.5 / np.maximum(y, 1e-9),
            lambda f: apply(g.SQRT, f),
            (g.SQRT,),
        ),
        Link(
            "inverse sqrt",
            lambda y: np.where(y > 0, 1 / (y * y), np.nan),
            lambda z: 1 / np.sqrt(z),
            lambda y: 0.5 * y**3,
            lambda f: _reciprocal(apply(g.SQRT, f)),
            (g.SQRT, g.DIV),
        ),
        Link("square", np.sqrt, np.square, lambda y: 2 * np.sqrt(y), lambda f: apply(g.SQUARE, f), (g.SQUARE,)),
        Link("log", np.exp, np.log, lambda y: np.exp(-y), lambda f: apply(g.LOG, f), (g.LOG,)),
        Link(
            "arcsin",
            lambda y: np.where(np.abs(y) < 1.570796, np.sin(y), np.nan),
            np.arcsin,
            lambda y: 1 / np.maximum(np.cos(y), 1e-6),
            lambda f: apply(g.ARCSIN, f),
            (g.ARCSIN,),
        ),
        Link(
            "arccos",
            lambda y: np.where((y > 0) & (y < 3.141592), np.cos(y), np.nan),
            np.arccos,
            lambda y: 1 / np.maximum(np.sin(y), 1e-6),
            lambda f: apply(g.ARCCOS, f),
            (g.ARCCOS,),
        ),
        Link(
            "tanh",
            lambda y: np.where(np.abs(y) < 1, np.arctanh(y), np.nan),
            np.tanh,
            lambda y: 1 - y * y,
            lambda f: apply(g.TANH, f),
            (g.TANH,),
        ),
    )
}


_FUNCTIONS = {2: g.SQUARE, 3: g.CUBE, 0.5: g.SQRT}


def power(index: int, exponent: float) -> Formula:
    """Variable `index` to a positive exponent: whole and half exponents as functions, others as a constant to fit."""
    base = variable(index)
    return apply(g.MUL, base, apply(g.SQRT, base)) if exponent == 1.5 else raised(base, exponent)


def raised(base: Formula, exponent: float) -> Formula:
    """A base to a positive exponent: square, cube and root as functions, others that are not whole as a constant."""
    if exponent == 1:
        return base
    if exponent in _FUNCTIONS:
        return apply(_FUNCTIONS[exponent], base)
    return apply(g.POW, base, fixed(exponent) if exponent == int(exponent) else constant(exponent))


def monomial(exponents: Mapping[int, float]) -> Formula:
    """The product of powers of variables; the number 1 for none."""
    above = [power(index, e) for index, e in sorted(exponents.items()) if e > 0]
    below = [power(index, -e) for index, e in sorted(exponents.items()) if e < 0]
    top = product(above) if above else fixed(1)
    return apply(g.DIV, top, product(below)) if below else top


def product(factors: Sequence[Formula]) -> Formula:
    """All factors multiplied."""
    result = factors[0]
    for factor in factors[1:]:
        result = apply(g.MUL, result, factor)
    return result


def polynomial_terms(indices: Sequence[int], degree: int) -> list[Formula]:
    """Every monomial of these variables of total degree 1 to `degree`, low degrees first."""
    terms = []
    for total in range(1, degree + 1):
        for chosen in combinations_with_replacement(indices, total):
            exponents: dict[int, float] = {}
            for index in chosen:
                exponents[index] = exponents.get(index, 0) + 1
            terms.append(monomial(exponents))
    return terms


def count_polynomial_terms(variables: int, degree: int) -> int:
    """How many terms `polynomial_terms` gives."""
    total = 1
    for k in range(1, degree + 1):
        total = total * (variables + k) // k
    return total - 1


def other_bases(indices: Sequence[int], functions: Iterable[int]) -> list[list[Formula]]:
    """Sets of terms that are fitted as a whole: powers and logarithms of each variable; sines and cosines, alone and
    times variables and each other; the same of squares."""
    allowed = set(functions)
    bases = []
    if g.DIV in allowed:
        powers = [power(i, e) for e in (1, 2, 3, 4) for i in indices]
        powers += [monomial({i: e}) for e in (-1, -2) for i in indices]
        bases.append(powers + [apply(g.LOG, variable(i)) for i in indices if g.LOG in allowed])
    if {g.SIN, g.COS} <= allowed:
        trig = [apply(f, variable(i)) for i in indices for f in (g.SIN, g.COS)]
        mixed = polynomial_terms(indices, 2) + trig
        mixed += [apply(g.MUL, variable(i), t) for t in trig for i in indices]
        mixed += [apply(g.MUL, a, b) for a, b in combinations(trig, 2)]
        bases.append(mixed)
        of_squares = [apply(f, apply(g.SQUARE, variable(i))) for i in indices for f in (g.SIN, g.COS)]
        bases.append([*trig, *of_squares, *(apply(g.MUL, a, b) for a in trig for b in of_squares)])
    return bases


def multilinear_terms(indices: Sequence[int], degree: int) -> list[Formula]:
    """Products of up to `degree` different variables."""
    return [monomial(dict.fromkeys(c, 1.0)) for k in range(1, degree + 1) for c in combinations(indices, k)]


def waves(indices: Sequence[int], functions: Iterable[int]) -> list[Formula]:
    """Sines and cosines of small polynomials with coefficients -1, 0 and 1, for one or two variables."""
    allowed = set(functions)
    if not {g.SIN, g.COS} <= allowed or len(indices) > 2:
        return []
    first = variable(indices[0])
    if len(indices) == 1:
        parts = [first, apply(g.SQUARE, first), apply(g.CUBE, first)]
    else:
        second = variable(indices[1])
        parts = [first, second, apply(g.MUL, first, second)]
    terms = []
    for signs in cartesian((-1.0, 0.0, 1.0), repeat=len(parts)):
        leading = next((s for s in signs if s), 0.0)
        if leading == 1.0:
            inner = weighted_sum(parts, signs)
            terms += [apply(f, inner) for f in (g.SIN, g.COS)]
    return terms


def library(indices: Sequence[int], functions: Iterable[int], most: int) -> list[Formula]:
    """Terms for forward selection, simple ones first: powers, ratios, functions of them, and products of functions."""
    allowed = set(functions)
    unary = [code for code in (g.SIN, g.COS, g.EXP, g.LOG, g.SQRT, g.TANH) if code in allowed]
    columns = [variable(i) for i in indices]
    pairs = list(combinations(indices, 2))
    few = pairs if len(indices) <= 5 else []
    waves = [apply(f, u) for u in columns for f in unary]

    def powers(exponents: Iterable[dict[int, float]]) -> Iterator[Formula]:
        return (monomial(each) for each in exponents if g.DIV in allowed or min(each.values()) > 0)

    def with_decays(parts: Iterable[Formula], decaying: Iterable[Formula]) -> Iterator[Formula]:
        """Every function of the parts, then exp(-u)."""
        yield from (apply(f, u) for u in parts for f in unary)
        if g.EXP in allowed:
            yield from (apply(g.EXP, apply(g.NEG, u)) for u in decaying)

    inner = [*columns, *(apply(g.SQUARE, u) for u in columns)]
    ratios = [monomial({i: 1, j: s}) for i, j in few for s in (1, -1)] + [monomial({j: 1, i: -1}) for i, j in few]
    differences = [apply(g.SUB, variable(i), variable(j)) for i, j in few]
    begun = unary[:2]
    groups: tuple[Iterable[Formula], ...] = (  # of many columns there are far too many to build all
        powers({i: e} for e in (1, -1, 2, -2, 3, -3, 4, 5, 6) for i in indices),
        powers({i: float(e), j: float(f)} for e, f in _PAIR_POWERS for i, j in pairs),
        with_decays(inner, inner),
        (apply(g.MUL, u, wave) for wave in waves for u in columns),
        (apply(g.MUL, one, other) for one, other in combinations(waves if len(waves) <= 24 else (), 2)),
        with_decays([*ratios, *differences], ratios),
        (monomial(dict(zip(c, s, strict=True))) for c in combinations(indices, 3) for s in _TRIPLE_SIGNS),
        (apply(f, apply(g.CUBE, u)) for u in columns for f in begun),
        (
            apply(g.MUL, apply(f, u), apply(h, apply(g.SQUARE, v)))
            for u, v, f, h in cartesian(columns, columns, begun, begun)
            if len(columns) <= 3
        ),
    )
    terms: dict[Formula, None] = {}
    for term in chain(*groups):
        if len(terms) >= most:
            break
        terms[term] = None
    return list(terms)


def simple_terms(indices: Sequence[int], functions: Iterable[int]) -> list[Formula]:
    """Powers, logarithms and other functions of one column, and products of powers of two, for sums of two terms."""
    allowed = set(functions)
    exponents = (1, 2, 3, 0.5, -0.5, -1, -2) if g.DIV in allowed else (1, 2, 3, 0.5)
    terms = [monomial({i: e}) for e in exponents for i in indices]
    terms += [apply(f, variable(i)) for i in indices for f in (g.LOG, g.EXP, g.SIN, g.COS) if f in allowed]
    terms += [apply(g.EXP, apply(g.NEG, variable(i))) for i in indices if g.EXP in allowed]
    powers = [pair for pair in (*_PAIR_POWERS, *_INVERSE_POWERS) if g.DIV in allowed or min(pair) > 0]
    return terms + [monomial({i: a, j: b}) for a, b in powers for i, j in combinations(indices, 2)]


_PAIR_POWERS = (
    *((1, 1), (1, -1), (-1, 1), (2, 1), (1, 2), (2, -1), (-1, 2), (1, -2), (-2, 1)),
    *((2, -2), (-2, 2), (2, 2)),
)
_INVERSE_POWERS = ((-1, -1), (-1, -2), (-2, -1), (-2, -2))
_TRIPLE_SIGNS = ((1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))


def weighted_sum(terms: Sequence[Formula], coefficients: Sequence[float], intercept: float = 0.0) -> Formula:
    """intercept + sum of coefficient * term, with no node for coefficients that are 0 or 1. Positive terms first."""
    pairs = [(float(c), t) for c, t in zip(coefficients, terms, strict=True) if c != 0.0]
    pairs.sort(key=lambda pair: pair[0] < 0)
    result: Formula | None = None
    for coefficient, term in pairs:
        size = abs(coefficient)
        part = term if size == 1.0 else _scaled(size, term)
        if result is None:
            result = part if coefficient > 0 else (apply(g.NEG, part) if size == 1.0 else _scaled(coefficient, term))
        else:
            result = apply(g.ADD if coefficient > 0 else g.SUB, result, part)
    if result is None:
        return constant(intercept)
    if intercept:
        result = apply(g.ADD if intercept > 0 else g.SUB, result, constant(abs(intercept)))
    return result


def _scaled(coefficient: float, term: Formula) -> Formula:
    """coefficient * term; a term 1 / u takes the coefficient in place of its 1."""
    if term.codes[-1] == g.DIV and term.codes[0] == g.FIXED and term.values[0] == 1.0:
        parts = term.arguments()
        if parts[0].size == 1:
            return apply(g.DIV, constant(coefficient), parts[1])
    return apply(g.MUL, constant(coefficient), term)


def split_terms(formula: Formula) -> tuple[Formula, ...]:
    """The terms of a sum, without their signs and constant factors."""
    code = formula.codes[-1]
    if code in (g.ADD, g.SUB, g.NEG):
        return tuple(term for part in formula.arguments() for term in split_terms(part))
    if code == g.MUL:
        left, right = formula.arguments()
        if left.size == 1 and left.values:
            return split_terms(right)
    return (formula,)
