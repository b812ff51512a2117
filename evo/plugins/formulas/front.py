"""The front of a search: formulas from small and rough to large and exact, as text, LaTeX, sympy and Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from evo.plugins.formulas.evaluation import Array, evaluate, quiet
from evo.plugins.formulas.grammar import Formula, write
from evo.plugins.formulas.writing import to_latex, to_python, to_sympy

ModelSelection = Literal["best", "accuracy", "score", "description"]
"""How a row is recommended: see `Front.select`."""
_NEAR_BEST = 1.5
_NODE_FREEDOM = 0.3
"""Degrees of freedom that a node uses, because its place and function were chosen by the same rows. It matters for few
rows. Chosen on eight tables and generated formulas (see bench/results/formulas.md)."""


@dataclass(frozen=True)
class FrontRow:
    """One formula of a front. Call it with X (n, d) for its values (n,).

    names: of the columns of X; equation: text of the grammar with all digits; complexity: nodes
    loss: mean (weighted) loss on the training rows, the squared error unless the search had another
    r2: 1 - (weighted) squared error / variance of the target
    score: -d log(loss) / d complexity from the row before, 0 for the first row; losses below rounding count as equal
    """

    formula: Formula
    names: tuple[str, ...]
    equation: str
    complexity: int
    loss: float
    r2: float
    score: float

    def __repr__(self) -> str:
        return f"FrontRow({self.text()!r}, complexity={self.complexity}, loss={self.loss:.4g})"

    def __call__(self, x: npt.ArrayLike) -> Array:
        """Values (n,) at x (n, d); nan where the formula has none."""
        table = np.asarray(x, dtype=np.float64)
        if table.ndim != 2 or table.shape[1] != len(self.names):
            raise ValueError(f"x must be (rows, {len(self.names)}), not {table.shape}")
        with quiet():
            values = evaluate(self.formula, np.ascontiguousarray(table.T))
        return np.where(np.isfinite(values), values, np.nan)

    def text(self, digits: int = 4) -> str:
        """The equation with numbers of so many significant digits."""
        return write(self.formula, self.names, digits)

    def latex(self, digits: int = 4) -> str:
        """LaTeX, numbers with so many significant digits."""
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
    rounding: losses this small or smaller are equal
    """

    rows: tuple[FrontRow, ...]
    names: tuple[str, ...]
    best: FrontRow | None
    evaluations: int
    seconds: float
    stopped: str
    rounding: float

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[FrontRow]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> FrontRow:
        return self.rows[index]

    def select(self, model_selection: ModelSelection) -> FrontRow:
        """The row that a criterion recommends.

        accuracy: the smallest loss; score: the highest score; best: the highest score among the rows whose loss is at
        most 1.5 times the smallest (these three as PySR defines them); description: `best`, the shortest description.
        Raises ValueError for other words and for no rows.
        """
        if model_selection not in get_args(ModelSelection):
            words = ", ".join(repr(word) for word in get_args(ModelSelection))
            raise ValueError(f"model_selection must be one of {words}, not {model_selection!r}")
        if self.best is None:
            raise ValueError("the front is empty")
        if model_selection == "description":
            return self.best
        if model_selection == "accuracy":
            return self.rows[-1]
        bar = math.inf if model_selection == "score" else max(_NEAR_BEST * self.rows[-1].loss, self.rounding)
        return max((row for row in self.rows if row.loss <= bar), key=lambda row: row.score)

    def predict(self, x: npt.ArrayLike, row: FrontRow | None = None) -> Array:
        """Values (n,) of a row, the recommended one by default, at x (n, d); nan where it has none."""
        chosen = row or self.best
        if chosen is None:
            raise ValueError("the front is empty")
        return chosen(x)


@dataclass(frozen=True)
class MeasuredFormula:
    """A formula with its loss and its mean squared error."""

    formula: Formula
    loss: float
    squared: float


def make_rows(
    candidates: Sequence[MeasuredFormula], names: tuple[str, ...], variance: float, rounding: float
) -> tuple[FrontRow, ...]:
    """The rows of a front, without the candidates that are neither smaller nor better than another.

    variance: of the target; rounding: losses this small or smaller are equal
    """
    rows: list[FrontRow] = []
    for candidate in sorted(candidates, key=lambda each: (each.formula.size, each.loss)):
        formula, loss = candidate.formula, candidate.loss
        if not math.isfinite(loss) or (rows and loss >= rows[-1].loss):
            continue
        score = 0.0
        if rows:
            fall = math.log(max(rows[-1].loss, rounding) / max(loss, rounding))
            score = fall / (formula.size - rows[-1].complexity)
        r2 = 1 - candidate.squared / variance
        rows.append(FrontRow(formula, names, write(formula, names), formula.size, loss, r2, score))
    return tuple(rows)


def recommend(rows: Sequence[FrontRow], n: int, rounding: float, power: float = 2.0) -> FrontRow | None:
    """The row with the shortest description of n rows: log-likelihood against constants and nodes (after BIC), where
    losses below rounding count as equal.

    power: the loss grows like |residual|**power, 2 for the squared error: errors are taken to have the density
    exp(-|residual|**power), up to scale
    """
    best: tuple[float, FrontRow] | None = None
    for row in rows:
        constants = len(row.formula.fitted)
        if constants + 1 >= 0.7 * n and len(rows) > 1 and n > 3:
            continue
        freedom = max(0.02, 1 - (constants + 1 + _NODE_FREEDOM * row.complexity) / n)
        likelihood = 2 / power * math.log(max(row.loss, rounding)) - 2 * math.log(freedom)
        cost = n * likelihood + (constants + 0.4 * row.complexity) * math.log(n)
        if best is None or cost < best[0]:
            best = (cost, row)
    return best[1] if best else (rows[0] if rows else None)
