"""Whether the errors of a formula grow with its values, which the squared loss does not suit."""

from __future__ import annotations

import math

import numpy as np

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.front import FrontRow

_LEAST_ROWS = 20
_SHOWN = 3.3
"""Standard errors of a rank correlation of 0 from which it is no chance: p < .0005."""
_GROWTH = 2.0
"""How many times larger errors of large values are before it is said."""
_SPAN = 100.0
"""From the smallest to the largest target, before it is said."""
_EXACT = 1e-9


def describe_residuals(
    row: FrontRow,
    x: Reals,
    y: Reals,
    weights: Reals | None,
    target: str,
    *,
    relative: str,
    weigh: str,
    span: bool,
) -> str:
    """One line if errors grow with the value, or, with `span`, if the target spans two powers of ten or more; ""
    otherwise.

    x: (n, d); y: (n,); weights: (n,) of the squared errors
    relative, weigh: what to do, as the end of a sentence, about a target without and with a 0 in it
    """
    if 1 - row.r2 < _EXACT:
        return ""
    sizes = np.abs(y)
    least, largest = float(sizes.min()), float(sizes.max())
    remedy = relative if least > 0 else weigh
    predicted = row(x)
    errors = np.abs(predicted - y) * (1.0 if weights is None else np.sqrt(weights))
    grown = find_growth(predicted, errors)
    if grown is not None:
        return (
            f"The errors grow with {target}: their median is {grown[0]:.3g} in the third of the rows with the smallest "
            f"values and {grown[1]:.3g} in that with the largest. If they are a share of the value, {remedy}."
        )
    if span and least > 0 and largest >= _SPAN * least and bool((y > 0).all() or (y < 0).all()):
        decades = math.log10(largest / least)
        return (
            f"{target} spans {decades:.1f} powers of ten, and its largest values decide the fit. If errors are a share "
            f"of the value, {remedy}."
        )
    return ""


def find_growth(predicted: Reals, errors: Reals) -> tuple[float, float] | None:
    """The median error (n,) of the third of rows with the smallest |predicted| and of that with the largest, if a rank
    correlation shows that errors grow and the second median is at least twice the first; None otherwise."""
    known = np.isfinite(predicted) & np.isfinite(errors)
    sizes, errors = np.abs(predicted[known]), errors[known]
    n = len(sizes)
    if n < _LEAST_ROWS or float(np.ptp(sizes)) == 0 or float(np.ptp(errors)) == 0:
        return None
    order = np.argsort(sizes, kind="stable")
    ranks = np.empty(n)
    ranks[np.argsort(errors[order], kind="stable")] = np.arange(n)
    correlation = float(np.corrcoef(ranks, np.arange(n))[0, 1])
    low, high = (float(np.median(errors[part])) for part in (order[: n // 3], order[-(n // 3) :]))
    return (low, high) if correlation * math.sqrt(n - 1) > _SHOWN and high >= _GROWTH * low > 0 else None
