"""The front of a search: formulas from small and rough to large and exact, as text, LaTeX, sympy and Python."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import Reals, evaluate_formula, quiet
from evo.plugins.formulas.grammar import Formula, write_formula
from evo.plugins.formulas.writing import to_latex, to_python, to_sympy

_NODE_FREEDOM = 0.3
"""Degrees of freedom that a node uses, because its place and function were chosen by the same rows. It matters for few
rows. Chosen on eight tables and generated formulas (see bench/results/formulas.md)."""

_NODE_COST = 0.6
"""Of a node in the recommendation, in constants; chosen on laws 1000-1099 (bench/results/formulas.md)."""
_LEAST_SHARE = 0.2
"""Of the rows that count in the recommendation, however few of them have the error."""


@dataclass(frozen=True)
class FrontRow:
    """One formula of a front. Call it with X (n, d) for its values (n,).

    names: of the columns of X; equation: text of the grammar with all digits; complexity: nodes
    loss: mean of the (weighted) squared errors on the training rows, or of their shares of the target's square
    r2: 1 - loss / that of the best constant, whose weighted mean is the target's
    test_r2: on held-out rows, None without them, or if the formula has no finite value on `undefined` of them
    tail: kurtosis of its (weighted) errors, 3 for normal ones; large if few rows have most of the squared error
    score: PySR's, how much the log of the loss falls a node since the row above; 0 for the first, inf for a loss of 0
    """

    formula: Formula
    names: tuple[str, ...]
    equation: str
    complexity: int
    loss: float
    r2: float
    test_r2: float | None = None
    undefined: int = 0
    score: float = 0.0
    tail: float = field(default=3.0, compare=False)

    def __repr__(self) -> str:
        return f"FrontRow({self.text()!r}, complexity={self.complexity}, loss={self.loss:.4g})"

    def __call__(self, x: npt.ArrayLike) -> Reals:
        """Values (n,) at x (n, d); nan where the formula has none."""
        table = np.asarray(x, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise ValueError(f"x must be (rows, {len(self.names)}), not {table.shape}")
        with quiet():
            values = evaluate_formula(self.formula, np.ascontiguousarray(table.T))
        return np.where(np.isfinite(values), values, np.nan)

    def __getitem__(self, column: str) -> Any:
        """A column of `FormulaRegressor.equations_`, as the rows of PySR have them. Raises KeyError."""
        if column == "sympy_format":
            return self.sympy()
        return {**vars(self), "lambda_format": self}[column]

    def text(self, digits: int = 4) -> str:
        """The equation with numbers of `digits` significant digits."""
        return write_formula(self.formula, self.names, digits)

    def latex(self, digits: int = 4) -> str:
        """LaTeX, numbers with `digits` significant digits."""
        return to_latex(self.formula, self.names, digits)

    def sympy(self) -> Any:
        """A sympy expression of plain symbols with the names of the columns. Raises ImportError without sympy."""
        return to_sympy(self.formula, self.names, real=False)

    def python(self, function: str = "f") -> str:
        """The source of a function of numpy arrays, one argument a column, that needs only numpy."""
        return to_python(self.formula, self.names, function)


@dataclass(frozen=True)
class Front:
    """What a search found: rows ascending in complexity and descending in loss.

    best: the recommended row (`recommend`), None if there is none; evaluations: passes over the rows (see ledger)
    stopped: "exact", "evaluations", "seconds" or "callback", "" while the search runs
    """

    rows: tuple[FrontRow, ...]
    names: tuple[str, ...]
    best: FrontRow | None
    evaluations: int
    seconds: float = 0.0
    stopped: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[FrontRow]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> FrontRow:
        return self.rows[index]

    def predict(self, x: npt.ArrayLike, row: FrontRow | None = None) -> Reals:
        """Values (n,) of a row, the recommended one by default, at x (n, d); nan if it has none."""
        chosen = row or self.best
        if chosen is None:
            raise ValueError("the front is empty")
        return chosen(x)


def freedom(formula: Formula, n: int) -> float:
    """The share of n rows that a formula leaves to estimate its error by, after its constants and its form."""
    return max(0.02, 1 - (len(formula.fitted) + 1 + _NODE_FREEDOM * formula.size) / n)


def recommend(rows: Sequence[FrontRow], n: int, rounding: float) -> FrontRow | None:
    """The smallest row whose description of n rows is as short as any: log-likelihood against constants and nodes
    (after BIC), where losses below this share of the variance count as equal, and so do descriptions that differ by
    less than 2 ("not worth more than a bare mention": Kass and Raftery 1995). A row that one of a third of its size
    beats on held-out rows is left out.

    Where few rows have most of the error, as with errors that are a share of the value, a mean of squares is as
    uncertain as one of fewer normal errors: of 3 / kurtosis of the rows, by the median of the larger formulas, and of
    at least _LEAST_SHARE, so that one outlier does not hide all rows."""
    if not rows:
        return None
    costs: list[tuple[float, FrontRow]] = []
    effective = n * max(_LEAST_SHARE, min(1.0, 3 / statistics.median(row.tail for row in rows[len(rows) // 2 :])))
    for row in _drop_beaten(rows):
        constants = len(row.formula.fitted)
        if constants + 1 >= 0.7 * n and len(rows) > 1 and n > 3:
            continue
        likelihood = math.log(max(1 - row.r2, rounding)) - 2 * math.log(freedom(row.formula, n))
        costs.append((effective * likelihood + (constants + _NODE_COST * row.complexity) * math.log(n), row))
    least = min((cost for cost, _row in costs), default=0.0)
    return next((row for cost, row in costs if cost < least + 2), rows[0])


def _drop_beaten(rows: Sequence[FrontRow]) -> list[FrontRow]:
    """The rows that none of at most a third of their size beats on held-out rows; all rows if none were held out."""
    held = [-math.inf if row.test_r2 is None else row.test_r2 for row in rows]

    def is_beaten(row: FrontRow, reached: float) -> bool:
        small = (r2 for other, r2 in zip(rows, held, strict=True) if 3 * other.complexity <= row.complexity)
        return max(small, default=-math.inf) > reached

    return [row for row, r2 in zip(rows, held, strict=True) if not is_beaten(row, r2)]
