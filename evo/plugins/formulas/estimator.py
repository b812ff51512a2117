"""`evo.FormulaRegressor`: the search for formulas as an estimator of scikit-learn, under the names of PySR.

import evo

model = evo.FormulaRegressor(maxsize=20, random_state=0).fit(X, y)
model.equations_, model.sympy(), model.predict(X)
"""

from __future__ import annotations

import datetime
import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
    from threadpoolctl import threadpool_limits
except ImportError as error:
    needed = 'FormulaRegressor needs scikit-learn 1.6 or later: pip install "evo-search[formulas]"'
    raise ImportError(needed) from error

from evo.plugins.formulas.evaluation import Reals
from evo.plugins.formulas.front import FrontRow
from evo.plugins.formulas.grammar import Formula, arity
from evo.plugins.formulas.residuals import describe_residuals
from evo.plugins.formulas.rules import DEFAULT_FUNCTIONS, FormulaRules, read_function
from evo.plugins.formulas.search import search_formulas
from evo.plugins.formulas.units import Dimension, parse_unit
from evo.plugins.formulas.writing import plain_names, replace_names

_TIMES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


class FormulaRegressor(RegressorMixin, BaseEstimator):
    """Symbolic regression: a front of formulas, from small and rough to large and exact.

    The names of the parameters are PySR's where they mean the same.

    binary_operators, unary_operators: functions of the grammar that may occur; by default all that the engine uses.
        If only one of the two is given, the other is + - * / or none. + and * are necessary
    maxsize: the most nodes of a formula
    max_evals: passes over the rows, the budget; timeout_in_seconds: ends the search too, if given
    loss: "squared", or "relative": the mean square of the errors as shares of y, which must not be 0
    guesses: formulas to begin with, as text in the names of the columns (`x0`, `x1`, .. for an array), or as Formula,
        as those of the rows of another model's front
    random_state: one number gives the same formulas for the same rows and `max_evals`

    front_: a `Front`; equations_: its rows as a table; n_features_in_, feature_names_in_: as in scikit-learn
    """

    def __init__(
        self,
        *,
        binary_operators: Sequence[str] | None = None,
        unary_operators: Sequence[str] | None = None,
        maxsize: int = 50,
        max_evals: int | None = 20_000,
        timeout_in_seconds: float | None = None,
        loss: str = "squared",
        guesses: Sequence[str | Formula] = (),
        random_state: Any = None,
    ) -> None:
        self.binary_operators = binary_operators
        self.unary_operators = unary_operators
        self.maxsize = maxsize
        self.max_evals = max_evals
        self.timeout_in_seconds = timeout_in_seconds
        self.loss = loss
        self.guesses = guesses
        self.random_state = random_state

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None = None,
        *,
        variable_names: Sequence[str] | None = None,
        X_units: Sequence[str] | None = None,
        y_units: str | None = None,
    ) -> Self:
        """Search formulas of the columns of X (n, d) that give y (n,).

        sample_weight: (n,) of the squared errors
        variable_names: of the columns, in formulas; those of a data frame, or x0, x1, .. by default
        X_units, y_units: units of the columns and of y, such as "m/s^2" or "1"; "" may be any. A formula that breaks
            them is left out; a constant may carry any unit

        Raises ValueError, one line, for parameters and rows that cannot be used.
        """
        _refuse_times(X, y)
        given_x, given_y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, given_x, dtype=np.float64)
        names = self._names(variable_names)
        if self.max_evals is None and self.timeout_in_seconds is None:
            raise ValueError("max_evals or timeout_in_seconds is needed to end the search")
        rows, goal, weights = _merge_rows(given_x, np.asarray(given_y, dtype=np.float64), weights)
        with threadpool_limits(limits=1, user_api="blas"):  # small matrices, and sums in one order
            self.front_ = search_formulas(
                rows,
                goal,
                _read_rules(self, read_units(X_units, y_units, len(names))),
                names=tuple(plain for _given, plain in names),
                seconds=np.inf if self.timeout_in_seconds is None else float(self.timeout_in_seconds),
                evaluations=self.max_evals,
                seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
                guesses=[replace_names(g, dict(names)) if isinstance(g, str) else g for g in self.guesses],
                sample_weight=weights,
                loss=self.loss,
            )
        if self.front_.best is not None and self.loss == "squared":
            line = describe_residuals(
                *(self.front_.best, rows, goal, weights, "y"),
                relative="loss='relative' suits them",
                weigh="give large values small sample_weight",
                span=False,
            )
            if line:
                warnings.warn(line, stacklevel=2)
        return self

    def _names(self, given: Sequence[str] | None) -> list[tuple[str, str]]:
        """The columns' names as given and in formulas."""
        names = given
        if names is None:
            names = vars(self).get("feature_names_in_")
        if names is None:
            names = [f"x{index}" for index in range(self.n_features_in_)]
        if len(names) != self.n_features_in_:
            raise ValueError(f"there are {len(names)} variable_names for {self.n_features_in_} columns")
        given_names = [str(name) for name in names]
        plain = plain_names(given_names)
        if renamed := [f"{a!r} to {b}" for a, b in zip(given_names, plain, strict=True) if a != b]:
            warnings.warn(f"In formulas, {', '.join(renamed)}: other names cannot be written there.", stacklevel=4)
        return list(zip(given_names, plain, strict=True))

    # -- the fitted front ----------------------------------------------------------------------------------------------

    def get_best(self, index: int | None = None) -> FrontRow:
        """The recommended row of the front, the shortest description of rows and formula, or the one at `index`.

        `fit` holds no rows out, so a row's error is judged by the rows that it was fitted to.
        """
        check_is_fitted(self, "front_")
        best = self.front_.best if index is None else self.front_[index]
        if best is None:
            raise ValueError("the front is empty")
        return best

    def predict(self, X: npt.ArrayLike, index: int | None = None) -> Reals:
        """Values (n,) of the chosen formula, or of the row at `index`, at X (n, d); nan if it has none."""
        row = self.get_best(index)
        return row(validate_data(self, X, reset=False, dtype=np.float64))

    def sympy(self, index: int | None = None) -> Any:
        """The chosen formula, or the row at `index`, as a sympy expression."""
        return self.get_best(index).sympy()

    def latex(self, index: int | None = None, precision: int = 3) -> str:
        """The chosen formula, or the row at `index`, as LaTeX; precision: significant digits of numbers."""
        return self.get_best(index).latex(precision)

    def python(self, index: int | None = None) -> str:
        """The chosen formula, or the row at `index`, as the source of a function of numpy arrays."""
        return self.get_best(index).python()

    @property
    def equations_(self) -> Any:
        """The front as a pandas DataFrame, or as a list of dictionaries if pandas is not installed.

        Columns: complexity, loss, score, equation, lambda_format (call it with X), and sympy_format if
        sympy is installed.
        """
        check_is_fitted(self, "front_")
        sympy = [] if importlib.util.find_spec("sympy") is None else ["sympy_format"]
        columns = ("complexity", "loss", "score", "equation", *sympy, "lambda_format")
        rows = [{column: row[column] for column in columns} for row in self.front_]
        if importlib.util.find_spec("pandas") is None:
            return rows
        import pandas

        return pandas.DataFrame(rows)


def _refuse_times(X: Any, y: Any) -> None:
    """Raises ValueError, one line that names what has times, or the column of a frame that has text, for numbers."""
    try:
        columns = {f"column {name!r}": X[name] for name in X.columns}
    except AttributeError:  # no frame
        columns = {}
    for name, values in {**(columns or {"X": X}), "y": y}.items():
        array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
        cells = array.ravel().tolist() if array.dtype.kind in "OUT" else []
        if array.dtype.kind in "mM" or any(
            isinstance(cell, _TIMES) or type(cell).__name__ == "Period" for cell in cells
        ):
            raise ValueError(
                f"{name} has times, not numbers: give the seconds since the first, (t - t.iloc[0]).dt.total_seconds() "
                "of a pandas column t, or leave it out"
            )
        text = next((cell for cell in cells if isinstance(cell, str) and not _is_number(cell)), None)
        if name in columns and text is not None:
            raise ValueError(f"{name} has text, such as {text!r}, not numbers: give it as numbers, or leave it out")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _merge_rows(x: Reals, y: Reals, weights: Reals | None) -> tuple[Reals, Reals, Reals | None]:
    """The rows in one order, equal rows once with the sum of their weights, and rows of weight 0 left out.

    The formulas then depend on neither the order of the rows nor on how their weights are written.
    """
    weight = np.ones(len(y)) if weights is None else weights
    if (weight < 0).any() or not weight.sum() > 0:
        raise ValueError("sample_weight must be of numbers of at least 0, not all 0")
    kept = weight > 0
    whole = np.column_stack([x, y])[kept]
    merged, places = np.unique(whole, axis=0, return_inverse=True)
    total = np.bincount(places.ravel(), weights=weight[kept], minlength=len(merged)).astype(np.float64)
    equal = bool(np.ptp(total) <= 1e-12 * total.max())
    return np.ascontiguousarray(merged[:, :-1]), merged[:, -1].copy(), None if equal else total


def read_units(x_units: Sequence[str] | None, y_units: str | None, columns: int) -> tuple[Dimension | None, ...] | None:
    """The units of a table's columns and, last, of y; None without any. Raises ValueError."""
    if x_units is None and y_units is None:
        return None
    texts = [""] * columns if x_units is None else list(x_units)
    if len(texts) != columns:
        raise ValueError(f"there are {len(texts)} X_units for {columns} columns")
    return tuple(map(parse_unit, (*texts, y_units or "")))


def _read_rules(model: FormulaRegressor, units: tuple[Dimension | None, ...] | None) -> FormulaRules:
    """What a model's parameters allow on the front. Raises ValueError, one line."""
    if model.binary_operators is None and model.unary_operators is None:
        names: tuple[str, ...] = DEFAULT_FUNCTIONS
    else:
        binary = ("+", "-", "*", "/") if model.binary_operators is None else tuple(model.binary_operators)
        if not {"+", "*"} <= set(binary):
            raise ValueError("binary_operators must include '+' and '*'")
        names = (*binary, *(model.unary_operators or ()))
        for name in names:
            takes = arity(read_function(name))
            if takes != (2 if name in binary else 1):
                raise ValueError(f"{name!r} takes {takes} argument(s): put it among the other operators")
    if model.maxsize < 1:
        raise ValueError("maxsize must be at least 1")
    return FormulaRules(frozenset(map(read_function, names)), model.maxsize, units)
