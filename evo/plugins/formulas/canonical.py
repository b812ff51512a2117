"""Canonical forms: when two formulas are the same, and when they are the same up to their constants.

A formula becomes a sum of products of powers of atoms (variables, functions of sums, sums under a power). Products over
sums are multiplied out. `shape` drops every number, so formulas that differ by coefficients, offsets or phases have
equal shapes; formulas with different shapes may still be equal by an identity that is not used here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import evaluate
from evo.plugins.formulas.grammar import CONSTANT, FIXED, VARIABLE, Formula, arity, constant, write

Atom = tuple[Any, ...]
Monomial = frozenset[tuple[Atom, float]]
Terms = frozenset[Monomial]
MOST_TERMS = 200
_ONE: Monomial = frozenset()


def shape(formula: Formula) -> Terms:
    """The formula without its numbers; equal for formulas that are equal up to constants and simplification."""
    return _terms(formula) - {_ONE}


@lru_cache(maxsize=1024)
def unnamed_shape(formula: Formula) -> Terms:
    """The shape with all variables taken for one: equal for formulas that are equal after some renaming, and for a few
    others."""
    return shape(formula.rename(dict.fromkeys(formula.variables, 0)))


def is_one_of(formula: Formula, known: Iterable[Formula]) -> bool:
    """Whether it equals a known formula, up to constants and names of variables."""
    own = unnamed_shape(formula)
    variables = formula.variables
    for other in known:
        if len(other.variables) != len(variables) or unnamed_shape(other) != own:
            continue
        wanted = shape(other)
        if len(variables) > 6:
            return True
        for order in permutations(other.variables):
            if shape(formula.rename(dict(zip(variables, order, strict=True)))) == wanted:
                return True
    return False


def normal_text(formula: Formula, names: tuple[str, ...]) -> str:
    """The formula as text with the arguments of sums and products in one order; to see repeats."""
    return write(_ordered(formula), names, digits=10)


def fold_numbers(formula: Formula) -> Formula:
    """The formula with every function of constants replaced by one constant; fixed numbers alone stay as they are."""
    for root in range(formula.size):
        begin, end = formula.subtree(root)
        part = formula.cut(begin, end)
        if part.size > 1 and CONSTANT in part.codes and all(code < VARIABLE for code in part.codes):
            value = float(evaluate(part, np.empty((0, 1)))[0])
            if math.isfinite(value):
                return fold_numbers(formula.replace(begin, end, constant(value)))
    return formula


def turn_signs(formula: Formula) -> Formula:
    """The formula with `a - 2.0*b` for `a + -2.0*b`, and `a + 2.0*b` for `a - -2.0*b`; its values stay."""
    codes, values = list(formula.codes), list(formula.values)
    for root, code in enumerate(formula.codes):
        if code not in (g.ADD, g.SUB):
            continue
        begin, end = formula.subtree(root - 1)
        scaled = formula.codes[end - 1] in (g.MUL, g.DIV) and formula.subtree(end - 2)[0] == begin + 1
        if formula.codes[begin] != CONSTANT or not (end - begin == 1 or scaled):
            continue
        place = sum(1 for each in formula.codes[:begin] if each in (CONSTANT, FIXED))
        if values[place] < 0:
            values[place] = -values[place]
            codes[root] = g.SUB if code == g.ADD else g.ADD
    return Formula(tuple(codes), tuple(values))


def _ordered(formula: Formula) -> Formula:
    if formula.size == 1:
        return formula
    code = formula.codes[-1]
    arguments = [_ordered(each) for each in formula.arguments()]
    if code in (g.ADD, g.MUL):
        arguments.sort(key=lambda each: (each.codes, each.values))
    return g.apply(code, *arguments)


def _terms(formula: Formula) -> Terms:
    stack: list[Terms] = []
    numbers = iter(formula.values)
    for code in formula.codes:
        if code >= VARIABLE:
            stack.append(_single(("x", code - VARIABLE)))
        elif code in (CONSTANT, FIXED):
            # a number keeps its value as an attribute of the stack only where it is an exponent
            stack.append(frozenset({frozenset({(("n", next(numbers)), 1.0)})}))
        elif arity(code) == 2:
            right, left = stack.pop(), stack.pop()
            stack.append(_binary(code, left, right))
        else:
            stack.append(_unary(code, _numberless(stack.pop())))
    return _numberless(stack[0])


def _single(atom: Atom, exponent: float = 1.0) -> Terms:
    return frozenset({frozenset({(atom, exponent)})})


def _numberless(terms: Terms) -> Terms:
    """Numbers among the factors become 1."""
    return frozenset(frozenset(pair for pair in term if pair[0][0] != "n") for term in terms)


def _number(terms: Terms) -> float | None:
    """The value, if it is a number."""
    if len(terms) == 1:
        (term,) = terms
        if len(term) == 1:
            ((atom, _exponent),) = term
            if atom[0] == "n":
                return float(atom[1])
    return None


def _binary(code: int, left: Terms, right: Terms) -> Terms:
    if code == g.POW:
        exponent = _number(right)
        base = _numberless(left)
        return _single(("f", code, base, _numberless(right))) if exponent is None else _power(base, exponent)
    if code in (g.ADD, g.SUB):
        return _numberless(left) | _numberless(right)
    if code == g.DIV:
        exact, divisor = _number(left), _number(right)
        if exact is not None and divisor:
            return frozenset({frozenset({(("n", exact / divisor), 1.0)})})
        return _multiply(_numberless(left), _power(_numberless(right), -1.0))
    exact, other = _number(left), _number(right)
    if exact is not None and other is not None:
        return frozenset({frozenset({(("n", exact * other), 1.0)})})
    return _multiply(_numberless(left), _numberless(right))


def _unary(code: int, terms: Terms) -> Terms:
    if code == g.NEG:
        return terms
    if code in (g.SQUARE, g.CUBE, g.SQRT):
        return _power(terms, {g.SQUARE: 2.0, g.CUBE: 3.0, g.SQRT: 0.5}[code])
    if code in (g.SIN, g.COS):  # a phase apart
        code, terms = g.SIN, terms - {_ONE}
    elif code == g.EXP:
        terms = terms - {_ONE}
    return _single(("f", code, terms)) if terms else frozenset({_ONE})


def _multiply(left: Terms, right: Terms) -> Terms:
    if len(left) * len(right) > MOST_TERMS:
        return frozenset({_joined(frozenset({(("s", left), 1.0)}), frozenset({(("s", right), 1.0)}))})
    return frozenset(_joined(a, b) for a in left for b in right)


def _joined(a: Monomial, b: Monomial) -> Monomial:
    exponents = dict(a)
    for atom, exponent in b:
        exponents[atom] = exponents.get(atom, 0.0) + exponent
    return frozenset((atom, exponent) for atom, exponent in exponents.items() if exponent)


def _power(terms: Terms, exponent: float) -> Terms:
    if len(terms) == 1:
        (term,) = terms
        return frozenset({frozenset((atom, each * exponent) for atom, each in term)})
    if exponent == int(exponent) and 1 <= exponent <= 6:
        result = terms
        for _ in range(int(exponent) - 1):
            result = _multiply(result, terms)
        return result
    return _single(("s", terms), exponent)
