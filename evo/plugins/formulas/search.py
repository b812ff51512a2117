"""The search for formulas of a table: least squares over known forms first, evolution after, a front at the end.

front = search(X, y, names=["m", "v"], seconds=10)
print(front.best.equation, front.best.r2)
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Array, check_size, evaluate, fit_constants, mean_squared_error, quiet
from evo.plugins.formulas.front import Front, MeasuredFormula, make_rows, recommend
from evo.plugins.formulas.grammar import CONSTANT, FIXED, VARIABLE, Formula, constant, parse
from evo.plugins.formulas.ledger import EXACT, BudgetSpent, Equation, Ledger
from evo.plugins.formulas.losses import ElementwiseLoss
from evo.plugins.formulas.rules import FormulaRules, read_functions
from evo.plugins.formulas.stages import Stages

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
    """The callback or a condition ends the search; the word says which."""


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
    codes = read_functions(("+", "-", "*", *(functions or DEFAULT_FUNCTIONS)))
    return FormulaSearch(X, y, FormulaRules(codes, max_size), names, seed, sample_weight).run(
        seconds, evaluations, guesses, callback
    )


class FormulaSearch:
    """One search: its rows checked, its stages in order.

    X, y, names, seed, sample_weight: as of `search`; rules: what may be on the front; elementwise: the loss that ranks
    formulas, None for the squared error
    """

    def __init__(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        rules: FormulaRules,
        names: Sequence[str] | None = None,
        seed: int = 0,
        sample_weight: npt.ArrayLike | None = None,
        elementwise: ElementwiseLoss | None = None,
    ) -> None:
        table, goal = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if table.ndim != 2 or goal.shape != table.shape[:1] or not len(goal) or not table.shape[1]:
            raise ValueError(f"X must be (rows, columns) and y (rows,), not {table.shape} and {goal.shape}")
        if not (np.isfinite(table).all() and np.isfinite(goal).all()):
            raise ValueError("X and y must be finite numbers")
        check_size(goal, "y")
        check_size(table, "X")
        self.names = tuple(names) if names is not None else tuple(f"x{i}" for i in range(1, table.shape[1] + 1))
        if len(self.names) != table.shape[1]:
            raise ValueError(f"there are {len(self.names)} names for {table.shape[1]} columns")
        weights = None
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            if weights.shape != goal.shape or not (weights >= 0).all() or not weights.sum() > 0:
                raise ValueError("sample_weight must be (rows,) of numbers of at least 0, not all 0")
            weights = weights / weights.mean()
        self.rules, self.elementwise = rules, elementwise
        built = (g.ADD, g.SUB, g.MUL, *sorted(rules.functions))
        self._stages = Stages(tuple(dict.fromkeys(built)), random.Random(seed))
        self._ledger: Ledger | None = None
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
        enough: Callable[[float, int], bool] | None = None,
    ) -> Front:
        """See `search`; a formula whose loss and complexity are `enough` ends it too.

        Another call continues with a new budget, and its guesses are added to the front.
        """
        begun = time.monotonic()
        starts = [each if isinstance(each, Formula) else self._read(each) for each in guesses]
        most = math.inf if evaluations is None else float(evaluations)
        with quiet():
            if self._ledger is None:
                rules, elementwise = self.rules, self.elementwise
                self._ledger = Ledger(*self._rows, most, begun + seconds, rules, elementwise)
            ledger = self._ledger
            ledger.most, ledger.deadline = ledger.spent + most, begun + seconds
            self._listen(ledger, callback, enough, begun)
            stopped = "exact"
            try:
                for equation in ledger.front():
                    _stop_if(enough, equation)
                self._stages.run(ledger, starts)
            except BudgetSpent:
                stopped = "evaluations" if ledger.spent >= ledger.most else "seconds"
            except _Stopped as end:
                stopped = str(end)
            return self._front(ledger, begun, stopped)

    def is_same(
        self,
        rows: tuple[Array, Array, Array | None],
        names: tuple[str, ...],
        rules: FormulaRules,
        elementwise: ElementwiseLoss | None,
    ) -> bool:
        """Whether a search of these X (n, d), y and weights, or None, and under these rules would be this one."""
        x, y, weights = rows
        here_x, here_y, here_weights = self._all
        if (names, rules, elementwise) != (self.names, self.rules, self.elementwise):
            return False
        if weights is None or here_weights is None:
            return weights is here_weights and np.array_equal(x.T, here_x) and np.array_equal(y, here_y)
        same = np.array_equal(weights / weights.mean(), here_weights)
        return same and np.array_equal(x.T, here_x) and np.array_equal(y, here_y)

    def _read(self, guess: str) -> Formula:
        formula = parse(guess, self.names)
        if self.rules.express(formula) is None:
            raise ValueError(f"the guess {guess!r} is too large, or has functions or forms that are not allowed")
        return formula

    def _listen(
        self, ledger: Ledger, callback: Callback | None, enough: Callable[[float, int], bool] | None, begun: float
    ) -> None:
        """Have the ledger call back, and end the search when a formula is good enough."""
        last = [0.0]

        def tick() -> None:
            last[0] = time.monotonic()
            if callback is not None and callback(self._front(ledger, begun, "", polish=False)):
                raise _Stopped("callback")

        def improved(equation: Equation) -> None:
            _stop_if(enough, equation)
            if callback is not None and time.monotonic() - last[0] >= 0.1:
                tick()

        ledger.improved, ledger.tick = improved, None if callback is None else tick

    # -- the end -------------------------------------------------------------------------------------------------------

    def _front(self, ledger: Ledger, begun: float, stopped: str, polish: bool = True) -> Front:
        x, y, weights = self._all if polish else self._rows
        measure = LossMeasure(x, y, weights, self.elementwise)
        candidates = []
        for equation in ledger.front():
            formula, loss = equation.formula, equation.loss
            if polish:
                formula = _polish(formula, measure, ledger.worst)
                formula = turn_signs(formula) if g.SUB in ledger.rules.functions else formula
                loss = measure.loss(formula) + self.rules.penalty(formula)
            candidates.append(MeasuredFormula(formula, loss, mean_squared_error(formula, x, y, weights)))
        rounding = EXACT * ledger.worst
        rows = make_rows(candidates, self.names, ledger.variance, rounding)
        power = 2.0 if self.elementwise is None else self.elementwise.power(y, weights)
        best = recommend(rows, len(y), rounding, power)
        return Front(rows, self.names, best, math.ceil(ledger.spent), time.monotonic() - begun, stopped, rounding)


def _stop_if(enough: Callable[[float, int], bool] | None, equation: Equation) -> None:
    if enough is not None and enough(equation.loss, equation.size):
        raise _Stopped("condition")


@dataclass(frozen=True)
class LossMeasure:
    """The loss of formulas on rows, and their constants fitted to it."""

    x: Array
    y: Array
    weights: Array | None
    elementwise: ElementwiseLoss | None

    def loss(self, formula: Formula) -> float:
        """The mean (weighted) loss; inf if it is not finite."""
        if self.elementwise is None:
            return mean_squared_error(formula, self.x, self.y, self.weights)
        return self.elementwise.mean(evaluate(formula, self.x), self.y, self.weights)

    def fit(self, formula: Formula) -> Formula:
        """The formula with fitted constants, as it is if none fit."""
        if self.elementwise is None:
            fitted = fit_constants(formula, self.x, self.y, self.weights, 10)
            return fitted.formula if math.isfinite(fitted.loss) else formula
        return self.elementwise.refine(formula, self.x, self.y, self.weights)[0]


def _polish(formula: Formula, measure: LossMeasure, worst: float) -> Formula:
    """Fitted to all rows, and constants rounded wherever that costs nothing."""
    formula = measure.fit(fold_numbers(formula))
    loss = measure.loss(formula)
    allowed = max(loss * (1 + 1e-6), EXACT * worst)
    for place in formula.fitted:
        value = formula.values[place]
        for digits in range(0, 5):
            rounded = float(f"{value:.{digits}e}") if abs(value) < 1 else round(value, digits)
            if rounded == value or (rounded == 0 and value != 0):
                continue
            values = (*formula.values[:place], rounded, *formula.values[place + 1 :])
            tried = Formula(formula.codes, values)
            if measure.loss(tried) <= allowed:
                formula = tried
                break
    return formula


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
