"""The same law in fewer nodes: products and sums collected, and parts that lower no error removed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals, evaluate_formula, quiet
from evo.plugins.formulas.grammar import CONSTANT, VARIABLE, Formula, apply, constant, fixed, variable
from evo.plugins.formulas.terms import product, raised

_POWERS = {g.SQUARE: 2.0, g.CUBE: 3.0, g.SQRT: 0.5}
_Number = tuple[float, bool]
"""A factor, and whether it may be fitted."""
ONE: _Number = (1.0, False)
NUMBERS, POWERS, SUMS = range(3)
"""How far a formula is taken apart: into the factors of a product, those of its powers too, and constant factors of
sums, exponentials and logarithms too."""


def simplify(formula: Formula, x: Reals) -> Formula:
    """A formula with the same values on rows x (d, n), and as few nodes as the rules of this module make it."""

    def shorten(code: int, parts: list[Formula]) -> Formula:
        whole = apply(code, *parts)
        return next((tried for tried in _shorter(whole) if _is_equal(tried, whole, x)), whole)

    before = None
    while formula != before:
        before, formula = formula, formula.fold(variable, leaf, shorten)
    return formula


def prune(formula: Formula, loss: Callable[[Formula], float], most: float) -> Formula:
    """The formula with parts in place of functions of them wherever its loss stays at most `most`."""
    for root in range(formula.size - 1, -1, -1):
        begin, end = formula.subtree(root)
        for part in formula.cut(begin, end).arguments():
            tried = formula.replace(begin, end, part)
            if loss(tried) <= most:
                return prune(tried, loss, most)
    return formula


def leaf(value: float, is_fixed: bool) -> Formula:
    """A number as a formula."""
    return fixed(value) if is_fixed else constant(value)


def _cost(formula: Formula) -> tuple[int, int, int, int]:
    """Nodes, then variables, functions of one argument, and negative numbers."""
    unary = sum(1 for code in formula.codes if g.NEG <= code < CONSTANT)
    negative = sum(1 for value in formula.values if value < 0)
    return formula.size, sum(1 for code in formula.codes if code >= VARIABLE), unary, negative


def _is_equal(formula: Formula, other: Formula, x: Reals) -> bool:
    """Whether both have the same values where the other has one, which it must have on some row."""
    values, wanted = evaluate_formula(formula, x), evaluate_formula(other, x)
    known = np.isfinite(wanted)
    near = np.abs(wanted[known])
    return bool(known.any() and (np.abs(values - wanted)[known] <= 1e-9 * near + 1e-12 * near.max()).all())


@lru_cache(10_000)
def _shorter(formula: Formula) -> tuple[Formula, ...]:
    """Formulas of lower cost that may have the same values, the shortest first."""
    with quiet():
        return tuple(sorted((each for each in _rewritings(formula) if _cost(each) < _cost(formula)), key=_cost))


def _rewritings(formula: Formula) -> Iterator[Formula]:
    if all(code < VARIABLE for code in formula.codes):
        value = float(evaluate_formula(formula, np.empty((0, 1)))[0])
        if math.isfinite(value) and (CONSTANT in formula.codes or value % 1 == 0):
            yield leaf(value, CONSTANT not in formula.codes)
        return
    yield _write_sum(_terms_of(formula))
    for depth in (NUMBERS, POWERS, SUMS):
        yield _write_product(*_factors_of(formula, depth))
    inner = formula.arguments()[0]
    if {formula.codes[-1], inner.codes[-1]} == {g.LOG, g.EXP}:
        yield inner.arguments()[0]


# -- products ----------------------------------------------------------------------------------------------------------


@lru_cache(10_000)
def _factors_of(formula: Formula, depth: int) -> tuple[_Number, Mapping[Formula, float]]:
    """A number and powers by base, whose product is the formula."""
    factors: dict[Formula, float] = {}

    def add(part: Formula, power: float) -> _Number:
        code, parts = part.codes[-1], part.arguments()
        if _is_number(part):
            return float(np.power(part.values[0], power)), code == CONSTANT
        if code in (g.MUL, g.DIV):
            return _times(add(parts[0], power), add(parts[1], power if code == g.MUL else -power))
        if code == g.NEG and power % 1 == 0:
            return _times((-1.0 if power % 2 else 1.0, False), add(parts[0], power))
        exponent = parts[1].values[0] if code == g.POW and _is_number(parts[1]) else _POWERS.get(code)
        if exponent is not None and depth > NUMBERS:
            return add(parts[0], power * exponent)
        number, base = _pull(part, power) if depth == SUMS else (ONE, part)
        factors[base] = factors.get(base, 0.0) + power
        return number

    return add(formula, 1.0), factors


def _pull(formula: Formula, power: float) -> tuple[_Number, Formula]:
    """A number and a formula whose power, multiplied, are the formula's: 2.0*a + 4.0*b gives 2.0 and a + 2.0*b."""
    code, parts = formula.codes[-1], formula.arguments()
    if code == g.LOG:
        number, factors = _factors_of(parts[0], POWERS)
        if number == ONE and len(factors) == 1:
            ((base, exponent),) = factors.items()
            return (float(np.power(exponent, power)), exponent % 1 != 0), apply(g.LOG, base)
    if code == g.EXP:
        terms = {**_terms_of(parts[0])}
        value, is_fitted = terms.pop(None, ONE)
        if is_fitted and terms:
            return (float(np.exp(value * power)), True), apply(g.EXP, _write_sum(terms))
    if code in (g.ADD, g.SUB):
        whole = _terms_of(formula)
        first = abs(next((value for term, (value, is_fitted) in whole.items() if term and is_fitted), 1.0))
        if first not in (0.0, 1.0):
            scaled = _write_sum({term: (value / first, True) for term, (value, _fitted) in whole.items()})
            return (float(np.power(first, power)), True), scaled
    return ONE, formula


def _is_number(formula: Formula) -> bool:
    """Whether it is a constant or a whole number; pi and e stay as they are."""
    return formula.size == 1 and bool(formula.values) and (formula.codes[0] == CONSTANT or formula.values[0] % 1 == 0)


def _times(left: _Number, right: _Number) -> _Number:
    return left[0] * right[0], left[1] or right[1]


def _write_product(number: _Number, factors: Mapping[Formula, float]) -> Formula:
    groups: dict[float, tuple[list[Formula], list[Formula]]] = {1.0: ([], [])}
    for base, power in factors.items():
        size = abs(power)
        for part in (size - 0.5, 0.5) if size > 1 and size % 1 == 0.5 else (size,):
            groups.setdefault(part, ([], []))[power < 0].append(base)
    groups.pop(0.0, None)
    above, below = groups.pop(1.0)
    for size, (tops, bottoms) in groups.items():
        whole = product(tops or bottoms)
        whole = apply(g.DIV, whole, product(bottoms)) if tops and bottoms else whole
        (above if tops else below).append(raised(whole, size))
    value = float(f"{number[0]:.15g}")  # without the rounding errors of powers of ten
    if abs(value) != 1 or not above:
        above.insert(0, leaf(value, not number[1] and value % 1 == 0))
        value = 1.0
    whole = apply(g.DIV, product(above), product(below)) if below else product(above)
    return apply(g.NEG, whole) if value < 0 else whole


# -- sums --------------------------------------------------------------------------------------------------------------


@lru_cache(10_000)
def _terms_of(formula: Formula) -> Mapping[Formula | None, _Number]:
    """Terms with their factors, whose sum is the formula; None has the number alone."""
    terms: dict[Formula | None, _Number] = {}

    def add(others: Mapping[Formula | None, _Number], factor: _Number) -> Mapping[Formula | None, _Number]:
        for term, number in others.items():
            (value, was_fitted), (more, is_fitted) = terms.get(term, (0.0, False)), _times(factor, number)
            total = 0.0 if abs(value + more) < 1e-14 * abs(value) else value + more
            terms[term] = total, was_fitted or is_fitted
        return terms

    if formula.codes[-1] in (g.ADD, g.SUB):
        left, right = formula.arguments()
        add(_terms_of(left), ONE)
        return add(_terms_of(right), (1.0 if formula.codes[-1] == g.ADD else -1.0, False))
    number, factors = _factors_of(formula, POWERS)
    ((base, power),) = factors.items() if len(factors) == 1 else ((formula, 0.0),)
    if power == 1 and base.codes[-1] in (g.ADD, g.SUB):
        return add(_terms_of(base), number)
    if power == 1 and base.codes[-1] == g.LOG:  # log(2.0*a) is log(a) + log(2.0)
        (value, is_fitted), inner = _factors_of(base.arguments()[0], SUMS)
        if is_fitted and value > 0:
            add({None: (math.log(value), True)}, number)
            factors = {apply(g.LOG, _write_product(ONE, inner)): 1.0}
    return add({_write_product(ONE, factors) if factors else None: ONE}, number)


def _write_sum(terms: Mapping[Formula | None, _Number]) -> Formula:
    """Positive terms first, and a number after terms of its sign."""
    whole: Formula | None = None
    for term, (value, is_fitted) in sorted(terms.items(), key=lambda each: (each[1][0] < 0, each[0] is None)):
        if value:
            own, factors = _factors_of(term, NUMBERS) if term else (ONE, {})
            part = _write_product(_times((value if whole is None else abs(value), is_fitted), own), factors)
            whole = part if whole is None else apply(g.ADD if value > 0 else g.SUB, whole, part)
    return whole or fixed(0)
