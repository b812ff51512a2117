"""The search for formulas of a table: least squares over known forms first, evolution after, a front at the end.

front = search(X, y, names=["m", "v"], seconds=10)
print(front.best.equation, front.best.r2)
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.evaluation import Array, check_size, evaluate, fit_constants, mean_squared_error, quiet
from evo.plugins.formulas.front import Front, FrontRow, recommend
from evo.plugins.formulas.grammar import CONSTANT, FIXED, VARIABLE, Formula, constant, parse, write
from evo.plugins.formulas.ledger import EXACT, Ledger, SearchEnded
from evo.plugins.formulas.rules import DEFAULT_FUNCTIONS, FormulaRules, read_functions
from evo.plugins.formulas.stages import Stages

MOST_ROWS = 1000
"""Rows that a search works on; more are sampled, and the front is fitted to all at the end."""
Callback = Callable[[Front], bool | None]
"""Called when the front got better, at most about ten times a second, and every half second; true ends the search."""


def search(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    rules: FormulaRules | None = None,
    *,
    names: Sequence[str] | None = None,
    seconds: float = 60.0,
    evaluations: int | None = None,
    seed: int = 0,
    guesses: Sequence[str | Formula] = (),
    sample_weight: npt.ArrayLike | None = None,
    callback: Callback | None = None,
) -> Front:
    """Search formulas of the columns of X that give y.

    X: (n, d) finite numbers; y: (n,)
    rules: what may be on the front, the usual functions and 50 nodes by default
    names: of the columns, x1, x2, .. by default
    seconds, evaluations: the budget, what ends first
    guesses: formulas to begin with, as text or Formula
    sample_weight: (n,) of the squared errors

    One seed gives one front if `evaluations` ends the search. Raises ValueError, one line, for unusable rows, and
    FormulaError for a guess that is no formula.
    """
    begun, rules = time.monotonic(), rules or FormulaRules(read_functions(DEFAULT_FUNCTIONS))
    table, goal, weights = check_rows(X, y, sample_weight)
    names = tuple(names) if names is not None else tuple(f"x{i}" for i in range(1, table.shape[1] + 1))
    if len(names) != table.shape[1]:
        raise ValueError(f"there are {len(names)} names for {table.shape[1]} columns")
    every = used = np.ascontiguousarray(table.T), goal, weights
    if len(goal) > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(seed).choice(len(goal), MOST_ROWS, replace=False))
        part = None if weights is None else weights[chosen]
        used = np.ascontiguousarray(table[chosen].T), goal[chosen], part
    starts = [each if isinstance(each, Formula) else _read_guess(each, names, rules) for each in guesses]
    with quiet():
        most = math.inf if evaluations is None else float(evaluations)
        ledger = Ledger(*used, most, begun + seconds, rules)
        shown = 0.0

        def tick() -> None:
            nonlocal shown
            shown = time.monotonic()
            front = _make_front(ledger, used, names)
            if callback is not None and callback(replace(front, seconds=time.monotonic() - begun)):
                raise SearchEnded("callback")

        def improved() -> None:
            if time.monotonic() - shown >= 0.1:
                tick()

        if callback is not None:
            ledger.improved, ledger.tick = improved, tick
        stopped = "exact"
        try:
            Stages(ledger, random.Random(seed)).run(starts)
        except SearchEnded as end:
            stopped = str(end)
        front = _make_front(ledger, every, names, polish=True)
        return replace(front, seconds=time.monotonic() - begun, stopped=stopped)


def check_rows(
    X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None
) -> tuple[Array, Array, Array | None]:
    """X (n, d), y (n,) and weights (n,) with mean 1, or None. Raises ValueError, one line, for unusable rows."""
    table, goal = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if table.ndim != 2 or goal.shape != table.shape[:1] or not len(goal) or not table.shape[1]:
        raise ValueError(f"X must be (rows, columns) and y (rows,), not {table.shape} and {goal.shape}")
    if not (np.isfinite(table).all() and np.isfinite(goal).all()):
        raise ValueError("X and y must be finite numbers")
    check_size(goal, "y")
    check_size(table, "X")
    if sample_weight is None:
        return table, goal, None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != goal.shape or not (weights >= 0).all() or not weights.sum() > 0:
        raise ValueError("sample_weight must be (rows,) of numbers of at least 0, not all 0")
    return table, goal, weights / weights.mean()


def _read_guess(guess: str, names: Sequence[str], rules: FormulaRules) -> Formula:
    formula = parse(guess, names)
    if rules.express(formula) is None:
        raise ValueError(f"the guess {guess!r} is too large, or has functions or forms that are not allowed")
    return formula


# -- the end -----------------------------------------------------------------------------------------------------------


Rows = tuple[Array, Array, Array | None]
"""x (d, n), y (n,) and weights (n,), or None."""


def _make_front(ledger: Ledger, data: Rows, names: tuple[str, ...], polish: bool = False) -> Front:
    """The front of what the ledger holds. polish: fit the formulas to the rows of `data`, and round constants"""
    rules, candidates = ledger.rules, [(each.formula, each.loss) for each in ledger.front()]
    if polish:
        polished = [_polish(formula, data, ledger.variance) for formula, _loss in candidates]
        turned = [turn_signs(formula) if g.SUB in rules.functions else formula for formula in polished]
        candidates = [(formula, mean_squared_error(formula, *data)) for formula in turned if rules.keeps_units(formula)]
    rows: list[FrontRow] = []
    for formula, loss in sorted(candidates, key=lambda each: (each[0].size, each[1])):
        if math.isfinite(loss) and (not rows or loss < rows[-1].loss):
            r2 = 1 - mean_squared_error(formula, *data) / ledger.variance
            rows.append(FrontRow(formula, names, write(formula, names), formula.size, loss, r2))
    best = recommend(rows, len(data[1]), EXACT * ledger.variance)
    return Front(tuple(rows), names, best, math.ceil(ledger.spent))


def _polish(formula: Formula, data: Rows, variance: float) -> Formula:
    """Fitted to all rows, and constants rounded wherever that costs nothing."""
    formula = fold_numbers(formula)
    fitted = fit_constants(formula, *data, 10)
    formula = fitted.formula if math.isfinite(fitted.loss) else formula
    allowed = max(mean_squared_error(formula, *data) * (1 + 1e-6), EXACT * variance)
    for place in formula.fitted:
        value = formula.values[place]
        for digits in range(0, 5):
            rounded = float(f"{value:.{digits}e}") if abs(value) < 1 else round(value, digits)
            if rounded == value or (rounded == 0 and value != 0):
                continue
            values = (*formula.values[:place], rounded, *formula.values[place + 1 :])
            tried = Formula(formula.codes, values)
            if mean_squared_error(tried, *data) <= allowed:
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
