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
from evo.plugins.formulas.evaluation import COLUMNS, Reals, check_size, fit_constants, quiet
from evo.plugins.formulas.front import Front, FrontRow, freedom, recommend
from evo.plugins.formulas.grammar import Formula, apply, constant, parse_formula, write_formula
from evo.plugins.formulas.ledger import EXACT, Ledger, SearchEnded
from evo.plugins.formulas.rules import DEFAULT_FUNCTIONS, FormulaRules, read_functions
from evo.plugins.formulas.scales import ScaledRows
from evo.plugins.formulas.simplify import prune, simplify
from evo.plugins.formulas.stages import Stages

LOSSES = ("squared", "relative")
"""What a search makes small: the mean squared error, or the mean square of the errors as shares of the target."""
NEAREST = 1e-12
"""A target of a smaller share of the largest one counts as 0, of which no error is a share."""
_MOST_ROWS = 1000
"""Rows that a search works on; more are sampled, and the front is fitted to all at the end."""
Callback = Callable[[Front], bool | None]
"""Called when the front got better, at most about ten times a second, and every half second; true ends the search."""


def search_formulas(
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
    loss: str = "squared",
    callback: Callback | None = None,
) -> Front:
    """Search formulas of the columns of X that give y.

    X: (n, d) finite numbers; y: (n,)
    rules: what may be on the front, the usual functions and 50 nodes by default
    names: of the columns, x1, x2, .. by default
    seconds, evaluations: the budget, what ends first
    guesses: formulas to begin with, as text or Formula
    sample_weight: (n,) of the squared errors
    loss: of LOSSES

    One seed gives one front if `evaluations` ends the search. Raises ValueError, one line, for unusable rows, and
    FormulaError for a guess that is no formula.
    """
    begun, rules = time.monotonic(), rules or FormulaRules(read_functions(DEFAULT_FUNCTIONS))
    table, goal, given = check_rows(X, y, sample_weight)
    weights = weigh_errors(goal, given, loss)
    names = tuple(names) if names is not None else tuple(f"x{i}" for i in range(1, table.shape[1] + 1))
    if len(names) != table.shape[1]:
        raise ValueError(f"there are {len(names)} names for {table.shape[1]} columns")
    every = used = ScaledRows.of(table, goal, weights)
    unit = float(f"1e{every.target}") ** 2 if loss == "squared" else _mean_weight(every.y, given)
    if len(goal) > _MOST_ROWS:
        used = every.take(np.sort(np.random.default_rng(seed).choice(len(goal), _MOST_ROWS, replace=False)))
    starts = [each if isinstance(each, Formula) else parse_formula(each, names) for each in guesses]
    for guess, start in zip(guesses, starts, strict=True):
        if not isinstance(guess, Formula) and rules.express(start) is None:
            raise ValueError(f"the guess {guess!r} is too large, or has functions or forms that are not allowed")
    with quiet():
        most = math.inf if evaluations is None else float(evaluations)
        ledger = Ledger(used.x, used.y, used.weights, most, begun + seconds, rules)
        shown = 0.0

        def tick() -> None:
            nonlocal shown
            shown = time.monotonic()
            front = _make_front(ledger, used, names, unit)
            if callback is not None and callback(replace(front, seconds=time.monotonic() - begun)):
                raise SearchEnded("callback")

        def improved() -> None:
            if time.monotonic() - shown >= 0.1:
                tick()

        if callback is not None:
            ledger.improved, ledger.tick = improved, tick
        stopped = "exact"
        try:
            Stages(ledger, random.Random(seed)).run([used.enter(each) for each in starts])
        except SearchEnded as end:
            stopped = str(end)
        front = _make_front(ledger, every, names, unit, polish=True)
        return replace(front, seconds=time.monotonic() - begun, stopped=stopped)


def check_rows(
    X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None
) -> tuple[Reals, Reals, Reals | None]:
    """X (n, d), y (n,) and weights (n,) with mean 1, or None. Raises ValueError, one line, for unusable rows."""
    table, goal = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if table.ndim != 2 or goal.shape != table.shape[:1] or not len(goal) or not table.shape[1]:
        raise ValueError(f"X must be (rows, columns) and y (rows,), not {table.shape} and {goal.shape}")
    if not (np.isfinite(table).all() and np.isfinite(goal).all()):
        raise ValueError("X and y must be finite numbers")
    check_size(goal, "y")
    for index, values in enumerate(table.T):
        check_size(values, f"column {index} of X", COLUMNS)
    if sample_weight is None:
        return table, goal, None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != goal.shape or not (weights >= 0).all() or not weights.sum() > 0:
        raise ValueError("sample_weight must be (rows,) of numbers of at least 0, not all 0")
    return table, goal, weights / weights.mean()


def weigh_errors(y: Reals, weights: Reals | None, loss: str) -> Reals | None:
    """The weights (n,) of the squared errors under a loss: those given, over the square of the target and with mean 1
    if it is relative. Raises ValueError, one line, for another loss, and for a relative one of targets that are 0."""
    if loss not in LOSSES:
        raise ValueError(f"there is no loss {loss!r}; there is {' and '.join(LOSSES)}")
    if loss == "squared":
        return weights
    size = np.abs(y) / max(float(np.abs(y).max(initial=0)), 1e-300)
    near = int((size < NEAREST).sum())
    if near:
        raise ValueError(
            f"a relative loss needs targets other than 0, and {near} of {len(y)} rows {'has' if near == 1 else 'have'} "
            "0 or almost 0: leave them out, or keep the squared loss"
        )
    shares = (1.0 if weights is None else weights) / size**2
    total = float(shares.sum())  # 0 without rows, or if all weights are 0
    return np.asarray(shares * (len(y) / total if total else 1.0), dtype=np.float64)


def _mean_weight(y: Reals, weights: Reals | None) -> float:
    """By what a loss with the weights of `weigh` is multiplied to be the mean square of errors as shares of y."""
    return float(np.average(1 / y**2, weights=weights))


# -- the end -----------------------------------------------------------------------------------------------------------


def _make_front(ledger: Ledger, data: ScaledRows, names: tuple[str, ...], unit: float, polish: bool = False) -> Front:
    """The front of what the ledger holds.

    unit: of the losses that rows show, in losses of the search; polish: fit the formulas to the rows of `data`, and
    round constants

    A row stays if it lowers loss / freedom**2 (generalised cross-validation), as constants without use do not, and if
    no smaller row fits to rounding.
    """
    rules, n, rounding = ledger.rules, len(data.y), EXACT * ledger.variance
    candidates: list[tuple[Formula, float]] = []
    for each in ledger.front():
        formula = _polish(each.formula, data, rounding) if polish else data.leave(each.formula)
        allowed = rules.express(formula)
        if allowed is not None and not rules.keeps_units(allowed) and rules.admits_term(allowed):
            allowed = rules.express(apply(g.MUL, constant(1.0), allowed))  # which carries the unit that is missing
        if allowed is not None and rules.keeps_units(allowed):
            candidates.append((allowed, data.loss(allowed)))
    rows: list[FrontRow] = []
    least = lowest = math.inf
    for formula, loss in sorted(candidates, key=lambda each: (each[0].size, each[1])):
        error = loss / freedom(formula, n) ** 2
        if error < least and rounding < lowest > loss:
            fall = math.inf if loss == 0 else math.log(lowest / loss)
            score = fall / (formula.size - rows[-1].complexity) if rows else 0.0
            least, lowest, r2 = error, loss, 1 - loss / ledger.variance
            shown, tail = loss * unit, _kurtosis(data.errors(formula))
            row = FrontRow(
                formula, names, write_formula(formula, names), formula.size, shown, r2, score=score, tail=tail
            )
            rows.append(row)
    return Front(tuple(rows), names, recommend(rows, n, EXACT), math.ceil(ledger.spent))


def _kurtosis(errors: Reals) -> float:
    """The mean fourth power over the square of the mean square, 3 if all are 0."""
    squares = (errors / max(float(np.abs(errors).max()), 1e-300)) ** 2
    mean = float(squares.mean())
    return float((squares**2).mean()) / mean**2 if mean > 0 else 3.0


def _polish(formula: Formula, data: ScaledRows, rounding: float) -> Formula:
    """Fitted to all rows, in the units of the table, without dead parts, and constants rounded wherever that costs
    nothing."""
    formula = simplify(formula, data.x)
    fitted = fit_constants(formula, data.x, data.y, data.weights, 10)
    formula = data.leave(fitted.formula if math.isfinite(fitted.loss) else formula)
    allowed = max(data.loss(formula) * (1 + 1e-6), rounding)
    formula = simplify(prune(formula, data.loss, allowed), data.given)
    for place in formula.fitted:
        value = formula.values[place]
        for digits in range(0, 5):
            rounded = round(value, digits) if 1 <= abs(value) < 1e5 else float(f"{value:.{digits}e}")
            if rounded == value or (rounded == 0 and value != 0):
                continue
            tried = Formula(formula.codes, (*formula.values[:place], rounded, *formula.values[place + 1 :]))
            if data.loss(tried) <= allowed:
                formula = tried
                break
    return simplify(formula, data.given)
