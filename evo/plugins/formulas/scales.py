"""Rows of any size for a search that works on numbers of ordinary size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Reals, evaluate_formula, mean_squared_error
from evo.plugins.formulas.grammar import Formula, apply, constant, variable
from evo.plugins.formulas.simplify import leaf, simplify

ORDINARY = range(-3, 4)
"""Powers of ten of the largest number of a column that is left as it is."""


def find_scales(columns: Reals) -> list[int]:
    """The power of ten by which each row of columns (k, n) is divided, 0 for those of ordinary size.

    A column whose largest number is up to ten times smaller than that of another shares its power, so that their
    difference stays a difference.
    """
    tops = [math.floor(math.log10(top)) if top else 0 for top in np.abs(columns).max(1, initial=0).tolist()]
    scales, first = [0] * len(tops), math.inf
    for place in sorted(range(len(tops)), key=lambda k: -tops[k]):
        first = tops[place] if first - tops[place] > 1 else first
        scales[place] = 0 if first in ORDINARY else int(first)
    return scales


def rescale(formula: Formula, columns: Sequence[int], target: int) -> Formula:
    """10**target times the formula, of columns that are each multiplied by 10**columns[k]."""

    def scaled(part: Formula, power: int) -> Formula:
        return apply(g.MUL, constant(float(f"1e{power}")), part) if power else part

    inner = formula.fold(
        lambda index: scaled(variable(index), columns[index]), leaf, lambda code, parts: apply(code, *parts)
    )
    return scaled(inner, target)


@dataclass(frozen=True)
class ScaledRows:
    """Rows in the units of a table and in those of the search.

    given: (d, n) of the table; x (d, n), y (n,): of the search, divided by 10**columns[k] and 10**target
    """

    given: Reals
    columns: tuple[int, ...]
    target: int
    x: Reals
    y: Reals
    weights: Reals | None

    @classmethod
    def of(cls, table: Reals, goal: Reals, weights: Reals | None) -> ScaledRows:
        """The rows of a table (n, d) with its target (n,)."""
        given, (target,) = np.ascontiguousarray(table.T), find_scales(goal[None])
        columns = find_scales(given)
        scaled = np.array([values / float(f"1e{power}") for values, power in zip(given, columns, strict=True)])
        return cls(given, tuple(columns), target, scaled, goal / float(f"1e{target}"), weights)

    def take(self, rows: npt.NDArray[np.intp]) -> ScaledRows:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, given=self.given[:, rows], x=self.x[:, rows], y=self.y[rows], weights=weights)

    def enter(self, formula: Formula) -> Formula:
        """A formula of the table as one of the search."""
        return simplify(rescale(formula, self.columns, -self.target), self.x)

    def leave(self, formula: Formula) -> Formula:
        """A formula of the search as one of the table."""
        return simplify(rescale(formula, [-power for power in self.columns], self.target), self.given)

    def loss(self, formula: Formula) -> float:
        """The mean of the (weighted) squared errors of a formula of the table, in the units of the search."""
        return mean_squared_error(self._rescaled(formula), self.given, self.y, self.weights)

    def errors(self, formula: Formula) -> Reals:
        """The errors (n,) whose mean square is the loss."""
        errors: Reals = evaluate_formula(self._rescaled(formula), self.given) - self.y
        return errors if self.weights is None else errors * np.sqrt(self.weights)

    def _rescaled(self, formula: Formula) -> Formula:
        return rescale(formula, [0] * len(self.columns), -self.target)
