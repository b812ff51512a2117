"""The search for formulas of a table: least squares over known forms first, evolution after, a front at the end.

front = search(X, y, names=["m", "v"], seconds=10)
print(front.best.equation, front.best.r2)
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from problems.plugins.formulas import grammar as g
from problems.plugins.formulas.canonical import fold_numbers
from problems.plugins.formulas.evaluation import Array, fit_constants, mean_squared_error, quiet
from problems.plugins.formulas.front import Front, make_rows, recommend
from problems.plugins.formulas.grammar import CODES, Formula, parse
from problems.plugins.formulas.ledger import EXACT, BudgetSpent, Equation, Ledger
from problems.plugins.formulas.stages import Stages

DEFAULT_FUNCTIONS = (
    "+",
    "-",
    "*",
    "/",
    "**",
    "square",
    "cube",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tanh",
    "arcsin",
    "arccos",
)
MOST_ROWS = 1000
"""Rows that a search works on; more are sampled, and the front is fitted to all at the end."""


Callback = Callable[[Front], bool | None]
"""Called when the front got better, at most about ten times a second, and every half second; true ends the search."""


class _Stopped(Exception):
    """The callback asked for the end."""


def search(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    names: Sequence[str] | None = None,
    seconds: float = 60.0,
    evaluations: int | None = None,
    max_size: int = 50,
    functions: Sequence[str] | None = None,
    seed: int = 0,
    guesses: Sequence[str | Formula] = (),
    sample_weight: npt.ArrayLike | None = None,
    callback: Callback | None = None,
) -> Front:
    """Search formulas of the columns of X that give y.

    X: (n, d) finite numbers; y: (n,); names: of the columns, x1, x2, .. by default; seconds, evaluations: the budget,
    what ends first; max_size: nodes of a formula; functions: names of the grammar that may occur, by default
    DEFAULT_FUNCTIONS; guesses: formulas to begin with, as text or Formula; sample_weight: (n,) of the squared errors

    One seed gives one front if `evaluations` ends the search. Raises ValueError, one line, for unusable rows, and
    FormulaError for a guess that is no formula.
    """
    return FormulaSearch(X, y, names, max_size, functions, seed, sample_weight).run(
        seconds, evaluations, guesses, callback
    )


class FormulaSearch:
    """One search: its rows checked, its stages in order."""

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        names: Sequence[str] | None = None,
        max_size: int = 50,
        functions: Sequence[str] | None = None,
        seed: int = 0,
        sample_weight: npt.ArrayLike | None = None,
    ) -> None:
        table, goal = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if table.ndim != 2 or goal.shape != table.shape[:1] or not len(goal) or not table.shape[1]:
            raise ValueError(f"X must be (rows, columns) and y (rows,), not {table.shape} and {goal.shape}")
        if not (np.isfinite(table).all() and np.isfinite(goal).all()):
            raise ValueError("X and y must be finite numbers")
        self.names = tuple(names) if names is not None else tuple(f"x{i}" for i in range(1, table.shape[1] + 1))
        if len(self.names) != table.shape[1]:
            raise ValueError(f"there are {len(self.names)} names for {table.shape[1]} columns")
        weights = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            if weights.shape != goal.shape or not (weights >= 0).all() or not weights.sum() > 0:
                raise ValueError("sample_weight must be (rows,) of numbers of at least 0, not all 0")
            weights = weights / weights.mean()
        self.functions = _codes(functions or DEFAULT_FUNCTIONS)
        self.max_size, self.seed = max_size, seed
        self._rng = random.Random(seed)
        self._all = (np.ascontiguousarray(table.T), goal, weights)
        self._rows = self._all
        if len(goal) > MOST_ROWS:
            chosen = np.sort(np.random.default_rng(seed).choice(len(goal), MOST_ROWS, replace=False))
            part = None if weights is None else weights[chosen]
            self._rows = (np.ascontiguousarray(table[chosen].T), goal[chosen], part)

    def run(
        self,
        seconds: float,
        evaluations: int | None = None,
        guesses: Sequence[str | Formula] = (),
        callback: Callback | None = None,
    ) -> Front:
        """See `search`."""
        begun = time.monotonic()
        starts = [each if isinstance(each, Formula) else parse(each, self.names) for each in guesses]
        most = math.inf if evaluations is None else float(evaluations)
        ledger = Ledger(*self._rows, most, begun + seconds, self.max_size)
        if callback is not None:
            self._notify(ledger, callback, begun)
        stopped = "exact"
        with quiet():
            try:
                Stages(self.functions, self._rng).run(ledger, starts)
            except BudgetSpent:
                stopped = "evaluations" if ledger.spent >= ledger.most else "seconds"
            except _Stopped:
                stopped = "callback"
            return self._front(ledger, begun, stopped)

    def _notify(self, ledger: Ledger, callback: Callback, begun: float) -> None:
        """Have the ledger call back."""
        last = [0.0]

        def tick() -> None:
            last[0] = time.monotonic()
            if callback(self._front(ledger, begun, "", polish=False)):
                raise _Stopped

        def improved(_equation: Equation) -> None:
            if time.monotonic() - last[0] >= 0.1:
                tick()

        ledger.improved, ledger.tick = improved, tick

    # -- the end -------------------------------------------------------------------------------------------------------

    def _front(self, ledger: Ledger, begun: float, stopped: str, polish: bool = True) -> Front:
        x, y, weights = self._all if polish else self._rows
        found: dict[Formula, float] = {}
        for equation in ledger.front():
            formula, loss = equation.formula, equation.loss
            if polish:
                formula, loss = _polish(formula, x, y, weights, ledger.variance)
            found[formula] = loss
        rounding = EXACT * ledger.variance
        rows = make_rows(found, self.names, ledger.variance, rounding)
        best = recommend(rows, len(y), rounding)
        return Front(rows, self.names, best, math.ceil(ledger.spent), time.monotonic() - begun, stopped, rounding)


def _polish(formula: Formula, x: Array, y: Array, weights: Array | None, variance: float) -> tuple[Formula, float]:
    """Fitted to all rows, and constants rounded wherever that costs nothing."""
    fitted = fit_constants(fold_numbers(formula), x, y, weights, 10)
    loss = fitted.loss
    formula = fitted.formula if math.isfinite(loss) else formula
    allowed = max(loss * (1 + 1e-6), EXACT * variance)
    for place in formula.fitted:
        value = formula.values[place]
        for digits in range(0, 5):
            rounded = float(f"{value:.{digits}e}") if abs(value) < 1 else round(value, digits)
            if rounded == value or (rounded == 0 and value != 0):
                continue
            values = (*formula.values[:place], rounded, *formula.values[place + 1 :])
            tried = Formula(formula.codes, values)
            reached = mean_squared_error(tried, x, y, weights)
            if reached <= allowed:
                formula, loss = tried, reached
                break
    return formula, loss


def _codes(functions: Sequence[str]) -> tuple[int, ...]:
    unknown = [name for name in functions if name not in CODES]
    if unknown:
        raise ValueError(f"there is no function {unknown[0]!r}; there is {', '.join(CODES)}")
    return tuple(dict.fromkeys([g.ADD, g.SUB, g.MUL, *(CODES[name] for name in functions)]))
