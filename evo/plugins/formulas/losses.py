"""Losses other than the squared error, by name.

A search ranks formulas by such a loss. Constants come from least squares and are then refined: each round weights the
rows so that least squares descends the loss (iteratively reweighted least squares, Holland and Welsch 1977).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evo.plugins.formulas.evaluation import Array, evaluate, fit_constants
from evo.plugins.formulas.grammar import Formula

_CALL = re.compile(r"(\w+)\(([-+.\deE]*)\)")
_ROUNDS = 8
_STEPS = 3
_STEEPEST = 1e4
"""The largest weight of a row, in medians."""


@dataclass(frozen=True)
class ElementwiseLoss:
    """A loss of each row, smallest where the prediction equals the target. number: the parameter of a loss with one"""

    name: str
    number: float = 0.0

    def of_rows(self, predicted: Array, y: Array, weights: Array | None) -> Array:
        """(n,), weighted."""
        losses = _LOSSES[self.name](y - predicted, self.number)
        return losses if weights is None else losses * weights

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
        weight = np.where(np.isfinite(slope), np.maximum(slope / away, 0.0), 0.0)
        used = weight[weight > 0]
        if not len(used):
            return np.ones_like(y)
        return np.minimum(weight / float(np.median(used)), _STEEPEST)


def _huber(missing: Array, delta: float) -> Array:
    size = np.abs(missing)
    return np.where(size <= delta, 0.5 * size * size, delta * (size - 0.5 * delta))


_LOSSES: dict[str, Callable[[Array, float], Array]] = {
    "absolute_error": lambda missing, _none: np.abs(missing),
    "huber": _huber,
    "quantile": lambda missing, share: np.where(missing > 0, share * missing, (share - 1) * missing),
}
"""From what is missing of the target, and the number of the loss."""
NAMES = "squared_error, absolute_error, huber(1.0), quantile(0.5)"


def read_loss(given: str | None) -> ElementwiseLoss | None:
    """A loss by name; None for the squared error. Raises ValueError."""
    if given in (None, "squared_error"):
        return None
    if given == "absolute_error":
        return ElementwiseLoss(given)
    call = _CALL.fullmatch(given.replace(" ", "")) if isinstance(given, str) else None
    if call and call[1] in ("huber", "quantile"):
        try:
            return ElementwiseLoss(call[1], float(call[2]))
        except ValueError:
            pass
    raise ValueError(f"there is no elementwise_loss {given!r}; there is {NAMES}")
