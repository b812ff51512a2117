"""What a search spent and what it found: the count of evaluations, the deadline, and the front of error against size.

One evaluation is one pass of a formula over the training rows. A residual and a Jacobian of a fit count as one each. A
pass over more than PASS_NODES nodes counts in proportion: fitting a linear model of 100 terms, or screening 100 terms
against a residual, touches three nodes a term (coefficient, product, sum) and counts as 300 / PASS_NODES evaluations,
in addition to one for the column of each term.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from evo.plugins.formulas.evaluation import Reals, evaluate_formula, fit_constants, mean_squared_error
from evo.plugins.formulas.grammar import Formula
from evo.plugins.formulas.rules import FormulaRules

PASS_NODES = 50
TICK_SECONDS = 0.5
EXACT = 1e-13
"""A formula whose mean squared error is below this share of the target's variance fits to rounding."""


class SearchEnded(Exception):
    """The search is over; the text says why, as `Front.stopped` does."""


@dataclass(frozen=True)
class Equation:
    """One row of the front.

    loss: the mean of the (weighted) squared errors on the training rows
    exact: whether it fits to rounding and has far fewer constants than there are numbers to explain
    """

    formula: Formula
    loss: float
    exact: bool

    @property
    def size(self) -> int:
        return self.formula.size


@dataclass
class Ledger:
    """The books of one search.

    x: (d, n); y: (n,); weights: (n,) with mean 1, or None; most: evaluations; deadline: of time.monotonic()
    rules: what may be on the front; variance: of y, weighted
    largest: a term or a target beyond it is left out, 1e12 of fourth powers of the data
    best: the smallest loss of each size; improved: called when the front gets better
    tick: called every TICK_SECONDS, and may raise
    """

    x: Reals
    y: Reals
    weights: Reals | None
    most: float
    deadline: float
    rules: FormulaRules
    improved: Callable[[], None] | None = None
    tick: Callable[[], None] | None = None
    spent: float = 0.0
    best: dict[int, Equation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        w = np.ones_like(self.y) if self.weights is None else self.weights
        mean = float((w * self.y).sum() / w.sum())
        self.variance = max(float((w * (self.y - mean) ** 2).mean()), 1e-300)
        largest = max(float(np.abs(self.x).max(initial=0)), float(np.abs(self.y).max(initial=0)), 1.0)
        self.largest = min(1e150, 1e12 * largest**4) if largest < 1e38 else 1e150
        self._next_tick = time.monotonic() + TICK_SECONDS

    def spend(self, evaluations: float) -> None:
        """Raises SearchEnded if the budget was spent before."""
        now = time.monotonic()
        if self.spent >= self.most or now > self.deadline:
            raise SearchEnded("evaluations" if self.spent >= self.most else "seconds")
        if self.tick is not None and now >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            self.tick()
        self.spent += evaluations

    def spend_pass(self, terms: int) -> None:
        """A pass over a linear model of this many stored columns."""
        self.spend(max(1.0, 3.0 * terms / PASS_NODES))

    def add(self, formula: Formula, loss: float) -> bool:
        """Whether the formula is allowed, and smaller or better than all of the front; free.

        loss: its mean squared error
        """
        expressed = self.rules.express(formula) if math.isfinite(loss) else None
        if expressed is None or not self.rules.keeps_units(expressed):
            return False
        formula, loss = expressed, max(loss, 0.0)
        lowest = min((each.loss for size, each in self.best.items() if size <= formula.size), default=math.inf)
        floor = EXACT * self.variance * 1e-3  # losses below it are equal
        if lowest <= floor * (1 + 1e-9) or not loss < lowest / (1 + 1e-9):
            return False
        exact = loss <= EXACT * self.variance and len(formula.fitted) <= 0.5 * len(self.y)
        self.best = {size: each for size, each in self.best.items() if size < formula.size or each.loss < loss}
        self.best[formula.size] = Equation(formula, loss, exact)
        if self.improved is not None:
            self.improved()
        return True

    def score(self, formula: Formula) -> float:
        """The loss of a formula as it is; counted, and added to the front."""
        self.spend(1)
        loss = mean_squared_error(formula, self.x, self.y, self.weights)
        self.add(formula, loss)
        return loss

    def fit(self, formula: Formula, steps: int = 8) -> tuple[Formula, float]:
        """The formula with fitted constants, and its loss; counted, and added to the front."""
        self.spend(0)
        fitted = fit_constants(formula, self.x, self.y, self.weights, steps)
        self.spent += fitted.evaluations
        self.add(fitted.formula, fitted.loss)
        return fitted.formula, fitted.loss

    def column(self, formula: Formula) -> Reals:
        """The values of a term; counted."""
        self.spend(1)
        return evaluate_formula(formula, self.x)

    @property
    def exact(self) -> bool:
        """Whether a formula of the front is exact."""
        return any(each.exact for each in self.best.values())

    def stop_if_exact(self) -> None:
        """Raises SearchEnded if a formula of the front is exact."""
        if self.exact:
            raise SearchEnded("exact")

    def front(self) -> Iterator[Equation]:
        """Ascending in size, descending in loss."""
        for size in sorted(self.best):
            yield self.best[size]
