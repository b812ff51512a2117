"""Formulas on arrays: values, exact derivatives by the constants, and constants fitted by Levenberg-Marquardt.

The rows are held by variable, X of shape (d, n), each variable contiguous. Numeric faults (a logarithm of a negative
number, an overflow) show as values that are not finite; nothing raises. Callers silence numpy once, around many calls:
`with quiet(): ...`.

An evaluation is one pass of a formula over the rows. `fit_constants` counts each residual and each Jacobian as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas import grammar as g
from evo.plugins.formulas.grammar import ARITY, CONSTANT, VARIABLE, Formula

Reals = npt.NDArray[np.float64]
_Value = Any
"""An array (n,), or a number if the formula has no variable."""
TARGETS, COLUMNS = (1e-160, 1e154), (1e-300, 1e300)
"""The largest number of a target and of a column is between them: the squares of other targets are no numbers."""


def check_size(values: Reals, name: str, limits: tuple[float, float] = TARGETS) -> None:
    """Raises ValueError if a column's largest number is beyond these limits."""
    largest = float(np.abs(values).max(initial=0))
    if largest and not limits[0] < largest < limits[1]:
        raise ValueError(
            f"the largest number of {name} is {largest:g}; write it in units in which it is between {limits[0]:g} and "
            f"{limits[1]:g}"
        )


def quiet() -> AbstractContextManager[Any]:
    """numpy reports no floating-point faults within."""
    return np.errstate(all="ignore")


def _power(a: _Value, b: _Value) -> _Value:
    if isinstance(b, float):
        if b == 2.0:
            return a * a
        if b == -1.0:
            return 1.0 / a
        if b == 3.0:
            return a * a * a
    return np.power(a, b)


_VALUES: dict[int, Callable[..., _Value]] = {
    **{g.ADD: np.add, g.SUB: np.subtract, g.MUL: np.multiply, g.DIV: np.divide, g.POW: _power},
    **{g.NEG: np.negative, g.SQUARE: np.square, g.CUBE: lambda a: a * a * a, g.SQRT: np.sqrt, g.EXP: np.exp},
    **{g.LOG: np.log, g.SIN: np.sin, g.COS: np.cos, g.TAN: np.tan, g.ARCSIN: np.arcsin, g.ARCCOS: np.arccos},
    **{g.ARCTAN: np.arctan, g.SINH: np.sinh, g.COSH: np.cosh, g.TANH: np.tanh, g.ABS: np.abs},
    **{g.MIN: np.minimum, g.MAX: np.maximum},
}
_SLOPES: dict[int, tuple[Callable[..., _Value], ...]] = {
    g.ADD: (lambda a, b, v: 1.0, lambda a, b, v: 1.0),
    g.SUB: (lambda a, b, v: 1.0, lambda a, b, v: -1.0),
    g.MUL: (lambda a, b, v: b, lambda a, b, v: a),
    g.DIV: (lambda a, b, v: 1.0 / b, lambda a, b, v: -v / b),
    g.POW: (lambda a, b, v: b * _power(a, b - 1.0), lambda a, b, v: v * np.log(a)),
    g.NEG: (lambda a, v: -1.0,),
    g.SQUARE: (lambda a, v: 2.0 * a,),
    g.CUBE: (lambda a, v: 3.0 * a * a,),
    g.SQRT: (lambda a, v: 0.5 / v,),
    g.EXP: (lambda a, v: v,),
    g.LOG: (lambda a, v: 1.0 / a,),
    g.SIN: (lambda a, v: np.cos(a),),
    g.COS: (lambda a, v: -np.sin(a),),
    g.TAN: (lambda a, v: 1.0 + v * v,),
    g.ARCSIN: (lambda a, v: 1.0 / np.sqrt(1.0 - a * a),),
    g.ARCCOS: (lambda a, v: -1.0 / np.sqrt(1.0 - a * a),),
    g.ARCTAN: (lambda a, v: 1.0 / (1.0 + a * a),),
    g.SINH: (lambda a, v: np.cosh(a),),
    g.COSH: (lambda a, v: np.sinh(a),),
    g.TANH: (lambda a, v: 1.0 - v * v,),
    g.ABS: (lambda a, v: np.sign(a),),
    g.MIN: (lambda a, b, v: 1.0 * (a <= b), lambda a, b, v: 1.0 * (b < a)),
    g.MAX: (lambda a, b, v: 1.0 * (a >= b), lambda a, b, v: 1.0 * (b > a)),
}
"""The derivative of each function by each argument, from the arguments and the value."""


def evaluate_formula(formula: Formula, x: Reals) -> Reals:
    """The formula's values (n,) on rows x (d, n); not finite if it has no value there."""
    values = _evaluate(formula, x)
    return np.broadcast_to(np.float64(values), x.shape[1:]) if np.ndim(values) == 0 else values


def _evaluate(formula: Formula, x: Reals) -> _Value:
    stack: list[_Value] = []
    push, pop = stack.append, stack.pop
    numbers = iter(formula.values)
    for code in formula.codes:
        if code >= VARIABLE:
            push(x[code - VARIABLE])
        elif code >= CONSTANT:
            push(next(numbers))
        elif ARITY[code] == 2:
            right = pop()
            push(_VALUES[code](pop(), right))
        else:
            push(_VALUES[code](pop()))
    return stack[0]


def evaluate_with_jacobian(formula: Formula, x: Reals) -> tuple[Reals, Reals]:
    """Values (n,) and their derivatives (p, n) by the constants of `Formula.fitted`, in one reverse sweep.

    A value of row i depends on the constants through row i's nodes only. The adjoint of a constant's node is therefore
    its column of the Jacobian, and one sweep finds all of them.
    """
    rows, codes = x.shape[1], formula.codes
    count = len(codes)
    tape: list[_Value] = [None] * count
    arguments: list[tuple[int, ...]] = [()] * count
    depends = [False] * count
    stack: list[int] = []
    numbers = iter(formula.values)
    for place, code in enumerate(codes):
        if code >= VARIABLE:
            tape[place] = x[code - VARIABLE]
        elif code >= CONSTANT:
            tape[place] = next(numbers)
            depends[place] = code == CONSTANT
        else:
            parts = arguments[place] = tuple(stack[-ARITY[code] :])
            del stack[-len(parts) :]
            tape[place] = _VALUES[code](*(tape[part] for part in parts))
            depends[place] = any(depends[part] for part in parts)
        stack.append(place)
    jacobian = np.empty((len(formula.fitted), rows))
    adjoint: list[_Value] = [None] * count
    adjoint[-1] = 1.0
    column = len(formula.fitted)
    for place in range(count - 1, -1, -1):
        code, parts = codes[place], arguments[place]
        if code == CONSTANT:
            column -= 1
            jacobian[column] = adjoint[place]
        elif depends[place]:
            known = [*(tape[part] for part in parts), tape[place]]
            for part, slope in zip(parts, _SLOPES[code], strict=True):
                if depends[part]:
                    adjoint[part] = adjoint[place] * slope(*known)
    values = tape[-1]
    return (np.full(rows, values) if np.ndim(values) == 0 else values), jacobian


@dataclass(frozen=True)
class Fit:
    """A formula with fitted constants. loss: mean of the weighted squared errors, inf if no value of it is usable;
    evaluations: passes over the rows that it took"""

    formula: Formula
    loss: float
    evaluations: int


def mean_squared_error(formula: Formula, x: Reals, y: Reals, weights: Reals | None = None) -> float:
    """The mean of the squared errors, each times its weight; inf if a value is not finite."""
    residual = evaluate_formula(formula, x) - y
    total = float(residual @ residual if weights is None else (weights * residual) @ residual)
    return total / len(y) if math.isfinite(total) else math.inf


def fit_constants(formula: Formula, x: Reals, y: Reals, weights: Reals | None = None, steps: int = 8) -> Fit:
    """Least squares over the formula's constants, begun at its values: Levenberg-Marquardt with Marquardt's scaling.

    steps: the most Jacobians; every step tries at most four dampings. It ends early once a step gains less than 1e-9
    of the error. weights: (n,) of the squared errors
    """
    root = None if weights is None else np.sqrt(weights)
    rounding = 1e-28 * float(y @ y) / len(y)

    def loss_of(residual: Reals) -> float:
        total = float(residual @ residual)
        return total / len(y) if math.isfinite(total) else math.inf

    def residual_of(tried: Formula) -> Reals:
        difference: Reals = evaluate_formula(tried, x) - y
        return difference if root is None else difference * root

    places = formula.fitted
    if not places:
        return Fit(formula, loss_of(residual_of(formula)), 1)
    constants = np.array([formula.values[place] for place in places])
    damping, evaluations = 1e-3, 0
    loss = math.inf
    for _ in range(steps):
        values, jacobian = evaluate_with_jacobian(formula, x)
        evaluations += 2
        residual = values - y
        if root is not None:
            residual, jacobian = residual * root, jacobian * root
        loss = loss_of(residual)
        if not math.isfinite(loss):
            return Fit(formula, math.inf, evaluations)
        gram = jacobian @ jacobian.T
        gradient = jacobian @ residual
        if not (math.isfinite(float(gradient.sum())) and math.isfinite(float(gram.sum()))):
            break
        diagonal = gram.diagonal() + 1e-12 * max(float(gram.diagonal().max()), 1e-300)
        better = False
        for _attempt in range(4):
            try:
                step = np.linalg.solve(gram + np.diag(damping * diagonal), gradient)
            except np.linalg.LinAlgError:
                damping = damping * 10 + 1e-12
                continue
            tried = formula.with_constants(constants - step)
            evaluations += 1
            reached = loss_of(residual_of(tried))
            if reached < loss:
                better = True
                break
            damping *= 10
        if not better:
            break
        gain = loss - reached
        formula, constants, loss = tried, constants - step, reached
        damping = max(damping * 0.1, 1e-12)
        if gain <= 1e-9 * loss or loss < rounding:
            break
    return Fit(formula, loss, evaluations)
