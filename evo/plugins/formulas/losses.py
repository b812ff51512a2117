"""Losses other than the squared error: by name, or a function of the caller.

A search ranks formulas by such a loss. Constants come from least squares and are then refined: each round weights the
rows so that least squares descends the loss (iteratively reweighted least squares, Holland and Welsch 1977).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from evo.plugins.formulas.evaluation import Array, evaluate, fit_constants
from evo.plugins.formulas.grammar import Formula

_CALL = re.compile(r"(\w+)(?:\(([-+.\deE]*)\))?")
_ROUNDS = 8
_STEPS = 3
_STEEPEST = 1e4
"""The largest weight of a row, in medians."""


@dataclass(frozen=True)
class ElementwiseLoss:
    """A loss of each row, 0 or smallest where the prediction equals the target.

    function: (prediction (n,), target (n,)) -> (n,), or with weights (n,) as a third argument, which it then applies
    """

    function: Callable[..., Any]
    weighted: bool = False

    def of_rows(self, predicted: Array, y: Array, weights: Array | None) -> Array:
        """(n,), weighted. Raises ValueError if the function gives another shape."""
        if self.weighted:
            losses = self.function(predicted, y, np.ones_like(y) if weights is None else weights)
        else:
            losses = self.function(predicted, y)
        found = np.asarray(losses, dtype=np.float64)
        if found.shape != y.shape:
            raise ValueError(f"elementwise_loss must give one number a row, {y.shape}, not {found.shape}")
        return found if self.weighted or weights is None else found * weights

    def mean(self, predicted: Array, y: Array, weights: Array | None) -> float:
        """The mean over the rows; inf if it is not finite."""
        total = float(self.of_rows(predicted, y, weights).mean())
        return total if math.isfinite(total) else math.inf

    def power(self, y: Array, weights: Array | None) -> float:
        """The p, 0.5 to 2, with which the loss grows like |residual|**p: from residuals of a constant and doubles."""
        away = y - np.median(y)
        once, twice = self.mean(y + away, y, weights), self.mean(y + 2 * away, y, weights)
        if not (0 < once < math.inf and 0 < twice < math.inf):
            return 2.0
        return min(2.0, max(0.5, math.log2(twice / once)))

    def refine(self, formula: Formula, x: Array, y: Array, weights: Array | None) -> tuple[Formula, float, int]:
        """The formula with constants of a smaller loss, its loss, and how many passes over the rows that took."""
        predicted = evaluate(formula, x)
        loss, evaluations = self.mean(predicted, y, weights), 1
        for _ in range(_ROUNDS):
            if not formula.fitted or not math.isfinite(loss):
                break
            fitted = fit_constants(formula, x, y, self._row_weights(predicted, y, weights), _STEPS)
            evaluations += fitted.evaluations + 1
            tried = evaluate(fitted.formula, x)
            reached = self.mean(tried, y, weights)
            if not reached < loss:
                break
            gain = loss - reached
            formula, predicted, loss = fitted.formula, tried, reached
            if gain < 1e-5 * loss:
                break
        return formula, loss, evaluations

    def _row_weights(self, predicted: Array, y: Array, weights: Array | None) -> Array:
        """slope of the loss / residual: the weights with which the squared error has the loss's slope."""
        residual = predicted - y
        step = 1e-6 * max(float(np.abs(residual).mean()), 1e-300)
        above, below = (self.of_rows(predicted + by, y, weights) for by in (step, -step))
        slope = (above - below) / (2 * step)
        away = np.where(residual < 0, -1.0, 1.0) * np.maximum(np.abs(residual), step)
        found = np.where(np.isfinite(slope), np.maximum(slope / away, 0.0), 0.0)
        used = found[found > 0]
        if not len(used):
            return np.ones_like(y)
        return np.minimum(found / float(np.median(used)), _STEEPEST)


def _absolute(predicted: Array, y: Array) -> Array:
    return np.abs(predicted - y)


@dataclass(frozen=True)
class _Huber:
    delta: float

    def __call__(self, predicted: Array, y: Array) -> Array:
        size = np.abs(predicted - y)
        return np.where(size <= self.delta, 0.5 * size * size, self.delta * (size - 0.5 * self.delta))


@dataclass(frozen=True)
class _Quantile:
    quantile: float

    def __call__(self, predicted: Array, y: Array) -> Array:
        missing = y - predicted
        return np.where(missing > 0, self.quantile * missing, (self.quantile - 1) * missing)


@dataclass(frozen=True)
class _Power:
    exponent: float

    def __call__(self, predicted: Array, y: Array) -> Array:
        powers: Array = np.abs(predicted - y) ** self.exponent
        return powers


def _log_cosh(predicted: Array, y: Array) -> Array:
    size: Array = np.abs(predicted - y)
    return size + np.log1p(np.exp(-2 * size)) - math.log(2)


_SQUARED = ("squared_error", "L2DistLoss")
_PLAIN: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("absolute_error", "L1DistLoss"), _absolute),
    **dict.fromkeys(("log_cosh", "LogCoshLoss"), _log_cosh),
}
_WITH_NUMBER: dict[str, Callable[[float], Callable[[Array, Array], Array]]] = {
    **dict.fromkeys(("huber", "HuberLoss"), _Huber),
    **dict.fromkeys(("quantile", "QuantileLoss"), _Quantile),
    **dict.fromkeys(("power", "LPDistLoss"), _Power),
}
NAMES = "squared_error, absolute_error, log_cosh, huber(1.0), quantile(0.5), power(1.5)"


def read_loss(given: str | Callable[..., Any] | None) -> ElementwiseLoss | None:
    """A loss by name (PySR's names are read too) or function; None for the squared error. Raises ValueError."""
    if given is None:
        return None
    if not isinstance(given, str):
        if not callable(given):
            raise ValueError(f"elementwise_loss must be a name or a function, not {given!r}")
        try:
            count = len(signature(given).parameters)
        except (TypeError, ValueError):  # a numpy function
            count = 2
        if count not in (2, 3):
            raise ValueError("elementwise_loss must take (prediction, target) or (prediction, target, weights)")
        return ElementwiseLoss(given, count == 3)
    call = _CALL.fullmatch(given.replace(" ", "").replace("{", "(").replace("}()", ")").replace("}", ")"))
    name, number = (call[1], call[2]) if call else ("", None)
    if name in _SQUARED and not number:
        return None
    if name in _PLAIN and not number:
        return ElementwiseLoss(_PLAIN[name])
    if name in _WITH_NUMBER and number:
        try:
            return ElementwiseLoss(_WITH_NUMBER[name](float(number)))
        except ValueError:
            pass
    raise ValueError(f"there is no elementwise_loss {given!r}; there is {NAMES}, or a function")
