"""What a formula of the front may look like: its functions, its size, its units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import CONSTANT, FIXED, VARIABLE, Formula, apply, constant, fixed
from evo.plugins.formulas.units import Dimension, is_consistent

DEFAULT_FUNCTIONS = (
    *("+", "-", "*", "/", "**", "square", "cube", "sqrt", "exp", "log", "sin", "cos", "tanh"),
    *("arcsin", "arccos"),
)
MOST_FACTORS = 6
"""A whole power above it is not written as a product."""


@dataclass(frozen=True)
class FormulaRules:
    """What a search may put on its front.

    functions: codes that may occur; max_size: nodes
    units: dimensions of the columns and, last, of the target, None where any will do; None if none are kept
    """

    functions: frozenset[int]
    max_size: int = 50
    units: tuple[Dimension | None, ...] | None = None

    @cached_property
    def _allowed(self) -> frozenset[int]:
        allowed = {*self.functions, CONSTANT, FIXED}
        if g.SUB in allowed:
            allowed.add(g.NEG)  # a sign
        if g.POW in allowed:
            allowed |= {g.SQUARE, g.CUBE}  # written as powers
        return frozenset(allowed)

    def express(self, formula: Formula) -> Formula | None:
        """The formula with allowed functions only, if it can be written so and keeps all rules; None otherwise."""
        if not all(code in self._allowed or code >= VARIABLE for code in formula.codes):
            rewritten = self._rewrite(formula)
            if rewritten is None:
                return None
            formula = rewritten
        return formula if formula.size <= self.max_size else None

    def keeps_units(self, formula: Formula) -> bool:
        """Whether the formula gives the target's dimension from those of the columns."""
        return self.units is None or is_consistent(formula, self.units[:-1], self.units[-1])

    def admits_term(self, term: Formula) -> bool:
        """Whether a sum with this term can be on the front."""
        if self.express(term) is None:
            return False
        return self.units is None or is_consistent(term, self.units[:-1], None)

    # -- other functions -----------------------------------------------------------------------------------------------

    def _rewrite(self, formula: Formula) -> Formula | None:
        def rewrite(code: int, arguments: list[Formula | None]) -> Formula | None:
            known = [argument for argument in arguments if argument is not None]
            written = self._apply(code, known) if len(known) == len(arguments) else None
            return None if written is None or written.size > g.MOST_NODES else written

        return formula.fold(g.variable, lambda value, is_fixed: fixed(value) if is_fixed else constant(value), rewrite)

    def _apply(self, code: int, arguments: Sequence[Formula]) -> Formula | None:
        if code in self._allowed:
            return apply(code, *arguments)
        first, last = arguments[0], arguments[-1]
        if code == g.SUB:
            return apply(g.ADD, first, _negated(last))
        if code == g.NEG:
            return _negated(first)
        if code in (g.SQUARE, g.CUBE):
            return self._power(first, 2.0 if code == g.SQUARE else 3.0)
        if code == g.SQRT:
            return self._power(first, 0.5)
        if code == g.POW and last.size == 1 and last.values:
            return self._power(first, last.values[0])
        if code == g.DIV:
            if last.size == 1 and last.values and last.values[0]:
                return apply(g.MUL, constant(1 / last.values[0]), first)
            inverse = self._power(last, -1.0)
            return None if inverse is None else apply(g.MUL, first, inverse)
        return None

    def _power(self, base: Formula, exponent: float) -> Formula | None:
        """base ** exponent without the functions that are not allowed."""
        if exponent == 2 and g.SQUARE in self._allowed:
            return apply(g.SQUARE, base)
        if exponent == 3 and g.CUBE in self._allowed:
            return apply(g.CUBE, base)
        if exponent == 0.5 and g.SQRT in self._allowed:
            return apply(g.SQRT, base)
        if g.POW in self._allowed:
            return apply(g.POW, base, fixed(exponent))
        if exponent < 0:
            inverse = self._power(base, -exponent)
            return None if inverse is None or g.DIV not in self._allowed else apply(g.DIV, fixed(1), inverse)
        whole, half = int(exponent), exponent - int(exponent)
        if half not in (0.0, 0.5) or half and g.SQRT not in self._allowed or not 0 < exponent <= MOST_FACTORS:
            return None
        factors = [base] * whole + ([apply(g.SQRT, base)] if half else [])
        result = factors[0]
        for factor in factors[1:]:
            result = apply(g.MUL, result, factor)
        return result


def _negated(formula: Formula) -> Formula:
    """-formula with a negative number in place of a sign."""
    if formula.size == 1 and formula.values:
        return Formula(formula.codes, (-formula.values[0],))
    if formula.codes[-1] == g.MUL:
        left, right = formula.arguments()
        if left.size == 1 and left.values:
            return apply(g.MUL, _negated(left), right)
    return apply(g.MUL, fixed(-1), formula)


def read_functions(names: Iterable[str]) -> frozenset[int]:
    """The codes of functions by name. Raises ValueError for a name that is none."""
    return frozenset(map(read_function, names))


def read_function(name: str) -> int:
    """The code of a function by name or alias; `^` is `**`. Raises ValueError."""
    code = g.CODES.get("**" if name == "^" else name)
    if code is None:
        raise ValueError(f"there is no function {name!r}; there is {', '.join(each.name for each in g.FUNCTIONS)}")
    return code
