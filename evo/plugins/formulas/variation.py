"""Random terms, and the changes of a formula that genetic programming makes: subtree, point, hoist, crossover."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import (
    CONSTANT,
    VARIABLE,
    Formula,
    apply,
    arity,
    constant,
    fixed,
    variable,
)
from evo.plugins.formulas.terms import monomial

_EXPONENTS = (1, 1, 1, 1, 2, 2, -1, -1, -2, 3)


class Variation:
    """Draws and changes formulas over some variables and functions.

    unary_share: how often a node of a random tree is a function of one argument
    indices: of the variables; functions: codes that may occur; rng: of the search
    """

    unary_share = 0.25

    def __init__(self, indices: Sequence[int], functions: Iterable[int], rng: random.Random) -> None:
        self.indices, self.rng = list(indices), rng
        allowed = set(functions)
        self.binary = [code for code in (g.ADD, g.SUB, g.MUL, g.DIV, g.MIN, g.MAX) if code in allowed]
        self.unary = [code for code in sorted(allowed) if code > g.NEG and arity(code) == 1]
        self.outer = [code for code in self.unary if code not in (g.SQUARE, g.CUBE)]
        self.divides = g.DIV in allowed
        self.powers = g.POW in allowed

    def leaf(self) -> Formula:
        """A variable, rarely a number."""
        if self.rng.random() < 0.8:
            return variable(self.rng.choice(self.indices))
        return self.number()

    def number(self) -> Formula:
        """A constant to fit, or a small whole number."""
        if self.rng.random() < 0.6:
            return constant(math.exp(self.rng.gauss(0.0, 1.0)) * self.rng.choice((1, 1, -1)))
        return fixed(self.rng.choice((1, 2, 3)))

    def tree(self, depth: int) -> Formula:
        """A random tree at most so deep."""
        draw = self.rng.random()
        if depth <= 1 or draw < 0.15:
            return self.leaf()
        if draw < 0.15 + self.unary_share and self.unary:
            return apply(self.rng.choice(self.unary), self.tree(depth - 1))
        if self.powers and draw > 0.97:
            return apply(g.POW, self.tree(depth - 1), self.leaf())
        return apply(self.rng.choice(self.binary), self.tree(depth - 1), self.tree(depth - 1))

    def monomial(self) -> Formula:
        """A product of powers of one to three variables."""
        count = min(len(self.indices), self.rng.choice((1, 1, 2, 2, 3)))
        chosen = self.rng.sample(self.indices, count)
        exponents = {index: float(self.rng.choice(_EXPONENTS)) for index in chosen}
        if not self.divides:
            exponents = {index: abs(e) for index, e in exponents.items()}
        return monomial(exponents)

    def inner(self) -> Formula:
        """An argument for a function: a monomial, scaled or shifted by a constant, or a sum of two."""
        u = self.monomial() if self.rng.random() < 0.6 else variable(self.rng.choice(self.indices))
        draw = self.rng.random()
        if draw < 0.35:
            return u
        if draw < 0.6:
            return apply(g.MUL, constant(math.exp(self.rng.gauss(0.0, 0.8))), u)
        if draw < 0.75:
            return apply(g.ADD, u, constant(self.rng.gauss(0.0, 1.5)))
        if draw < 0.85:
            scaled = apply(g.MUL, constant(math.exp(self.rng.gauss(0.0, 0.8))), u)
            return apply(g.ADD, scaled, constant(self.rng.gauss(0.0, 1.5)))
        return apply(self.rng.choice((g.ADD, g.SUB)), u, self.monomial())

    def term(self) -> Formula:
        """A term of a sum."""
        draw = self.rng.random()
        if draw < 0.3 or not self.outer:
            return self.monomial()
        if draw < 0.6:
            return apply(self.rng.choice(self.outer), self.inner())
        if draw < 0.75:
            return apply(g.MUL, self.monomial(), apply(self.rng.choice(self.outer), self.inner()))
        if draw < 0.85:
            return apply(g.DIV if self.divides else g.MUL, self.monomial(), self.inner())
        return self.tree(4)

    # -- changes -------------------------------------------------------------------------------------------------------

    def subtree(self, formula: Formula) -> Formula:
        """A random subtree replaced by a random tree."""
        begin, end = formula.subtree(self.rng.randrange(formula.size))
        new = self.tree(self.rng.choice((1, 2, 3))) if self.rng.random() < 0.6 else self.inner()
        return formula.replace(begin, end, new)

    def point(self, formula: Formula) -> Formula:
        """A random node replaced by another of its arity."""
        place = self.rng.randrange(formula.size)
        code = formula.codes[place]
        if code >= CONSTANT:
            return formula.replace(place, place + 1, self.leaf())
        pool = self.unary if arity(code) == 1 else self.binary
        other = self.rng.choice(pool or [code])
        return Formula((*formula.codes[:place], other, *formula.codes[place + 1 :]), formula.values)

    def hoist(self, formula: Formula) -> Formula:
        """A subtree of a random subtree put in that subtree's place, so that the formula shrinks."""
        begin, end = formula.subtree(self.rng.randrange(formula.size))
        inner_begin, inner_end = formula.subtree(self.rng.randrange(begin, end))
        return formula.replace(begin, end, formula.cut(inner_begin, inner_end))

    def crossover(self, formula: Formula, other: Formula) -> Formula:
        """A random subtree replaced by a random subtree of another formula."""
        begin, end = formula.subtree(self.rng.randrange(formula.size))
        return formula.replace(begin, end, other.cut(*other.subtree(self.rng.randrange(other.size))))

    def insert(self, formula: Formula) -> Formula:
        """A function, a factor, a summand or a constant inserted above a random subtree."""
        begin, end = formula.subtree(self.rng.randrange(formula.size))
        part = formula.cut(begin, end)
        draw = self.rng.random()
        if draw < 0.3 and self.unary:
            new = apply(self.rng.choice(self.unary), part)
        elif draw < 0.55:
            new = apply(g.MUL, part, variable(self.rng.choice(self.indices)))
        elif draw < 0.7 and self.divides:
            new = apply(g.DIV, part, variable(self.rng.choice(self.indices)))
        elif draw < 0.8:
            new = apply(g.ADD, part, constant(self.rng.gauss(0.0, 1.0)))
        elif draw < 0.9:
            new = apply(g.MUL, constant(math.exp(self.rng.gauss(0.0, 0.7))), part)
        else:
            new = apply(self.rng.choice(self.binary), part, self.leaf())
        return formula.replace(begin, end, new)

    def jitter(self, formula: Formula) -> Formula:
        """The constants multiplied by random factors, or, if there are none, a point change."""
        places = formula.fitted
        if not places:
            return self.point(formula)
        scale = self.rng.choice((0.1, 0.5, 1.5))
        constants = [formula.values[p] * math.exp(self.rng.gauss(0.0, scale)) for p in places]
        if self.rng.random() < 0.3:
            constants[self.rng.randrange(len(constants))] *= -1
        return formula.with_constants(constants)

    def change(self, formula: Formula, others: Sequence[Formula]) -> Formula:
        """One of the changes at random."""
        draw = self.rng.random()
        if draw < 0.25:
            return self.subtree(formula)
        if draw < 0.45:
            return self.point(formula)
        if draw < 0.55:
            return self.hoist(formula)
        if draw < 0.7 and others:
            return self.crossover(formula, self.rng.choice(others))
        if draw < 0.9:
            return self.insert(formula)
        return self.jitter(formula)


def uses_variables(formula: Formula) -> bool:
    """Whether some variable occurs."""
    return any(code >= VARIABLE for code in formula.codes)
