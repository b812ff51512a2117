"""Real tables, cross-validated: `FormulaRegressor`, gradient boosting, a linear model, pyoperon and gplearn.

    python -m bench.formulas_tables measure evo boosting linear pyoperon gplearn --seeds 3 -o out.jsonl
    python -m bench.formulas_tables report out.jsonl

Five folds, shuffled by the seed, which the systems have too. R2 is of all rows of a table, each predicted by the model
that was fitted without its fold; a value that is not finite counts as the mean of the training rows. The size is the
mean of the nodes: of the formula, of all trees, or of the linear formula. `small tables` are the tables on which the
recommendation was developed, the others were first used when it was done. Install the peers and tables with
`pip install scikit-learn statsmodels pyoperon gplearn`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

EVALUATIONS = 20_000
FOLDS = 5
MEASURED: dict[str, tuple[str, tuple[str, ...]]] = {
    "diabetes": ("", ()),
    "statecrime": ("murder", ("hs_grad", "poverty", "single", "white", "urban")),
    "ccard": ("AVGEXP", ("AGE", "INCOME", "OWNRENT")),
    "grunfeld": ("invest", ("value", "capital", "year")),
    "engel": ("foodexp", ("income",)),
    "fair": ("affairs", ("rate_marriage", "age", "yrs_married", "children", "religious", "educ", "occupation")),
}
DEVELOPED: dict[str, tuple[str, tuple[str, ...]]] = {
    "cancer": ("cancer", ("population",)),
    "copper": ("WORLDCONSUMPTION", ("COPPERPRICE", "INCOMEINDEX", "ALUMPRICE", "INVENTORYINDEX", "TIME")),
    "scotland": ("YES", ("COUTAX", "UNEMPF", "MOR", "ACT", "GDP", "AGE")),
    "stackloss": ("STACKLOSS", ("AIRFLOW", "WATERTEMP", "ACIDCONC")),
    "longley": ("TOTEMP", ("GNPDEFL", "GNP", "UNEMP", "ARMED", "POP", "YEAR")),
    "committee": ("BILLS104", ("SIZE", "SUBS", "STAFF", "PRESTIGE", "BILLS103")),
    "macrodata": ("infl", ("realgdp", "realcons", "tbilrate", "unemp", "realint")),
    "modechoice": ("gc", ("ttme", "invc", "invt", "hinc", "psize")),
}
"""The target and the variables of each table."""
MOST_ROWS = 1000


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and y (n,); of a longer table, MOST_ROWS rows that seed 0 draws."""
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        return load_diabetes(return_X_y=True)
    import importlib

    target, columns = {**MEASURED, **DEVELOPED}[name]
    data = importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data
    x, y = data[list(columns)].to_numpy(float), data[target].to_numpy(float)
    if len(y) > MOST_ROWS:
        chosen = np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False)
        x, y = x[chosen], y[chosen]
    return x, y


Fitted = tuple[Callable[[np.ndarray], np.ndarray], int, Any]
"""A model's predict, its nodes, and what else the row keeps."""


def fit_evo(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from evo.plugins.formulas.estimator import FormulaRegressor

    model = FormulaRegressor(max_evals=EVALUATIONS, random_state=seed).fit(x, y)
    return model.predict, model.get_best().complexity, [row.equation for row in model.front_]


def fit_boosting(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from sklearn.ensemble import GradientBoostingRegressor

    model = GradientBoostingRegressor(random_state=seed).fit(x, y)
    return model.predict, sum(tree.tree_.node_count for tree in model.estimators_.ravel()), None


def fit_linear(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from sklearn.linear_model import LinearRegression

    return LinearRegression().fit(x, y).predict, 4 * x.shape[1] + 1, None


def fit_pyoperon(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    """The front's formula with the best Bayesian information criterion."""
    from pyoperon.sklearn import SymbolicRegressor

    model = SymbolicRegressor(
        allowed_symbols="add,sub,mul,div,square,sqrt,exp,log,sin,cos,tanh,pow,constant,variable",
        population_size=1000,
        generations=10**6,
        max_evaluations=EVALUATIONS,
        max_length=50,
        optimizer_iterations=5,
        objectives=["r2", "length"],
        model_selection_criterion="bayesian_information_criterion",
        random_state=seed + 1,
    ).fit(x, y)
    return model.predict, int(model.stats_["model_length"]), None


def fit_gplearn(x: np.ndarray, y: np.ndarray, seed: int) -> Fitted:
    from gplearn.genetic import SymbolicRegressor

    names = ("add", "sub", "mul", "div", "sqrt", "log", "sin", "cos", "neg", "inv")
    model = SymbolicRegressor(generations=EVALUATIONS // 1000, function_set=names, random_state=seed).fit(x, y)
    return model.predict, len(model._program.program), None


SYSTEMS = {
    "evo": fit_evo,
    "boosting": fit_boosting,
    "linear": fit_linear,
    "pyoperon": fit_pyoperon,
    "gplearn": fit_gplearn,
}


def folds(rows: int, seed: int) -> list[np.ndarray]:
    """The rows of each fold."""
    return np.array_split(np.random.default_rng(seed).permutation(rows), FOLDS)


def measure(given: argparse.Namespace) -> None:
    """Append the tables and seeds that are missing."""
    warnings.filterwarnings("ignore")
    tables = DEVELOPED if given.developed else MEASURED
    done = {(row["system"], row["table"], row["seed"]) for row in read_rows(given.output)}
    for seed in range(given.seeds):
        for name in tables:
            for system in given.systems:
                if (system, name, seed) in done:
                    continue
                row = measure_one(system, name, seed)
                with given.output.open("a") as file:
                    file.write(json.dumps(row) + "\n")


def measure_one(system: str, name: str, seed: int) -> dict[str, Any]:
    """One row: the predictions of all folds."""
    x, y = load(name)
    predicted, sizes, kept = np.zeros_like(y), [], []
    cpu = time.process_time()
    for test in folds(len(y), seed):
        train = np.setdiff1d(np.arange(len(y)), test)
        predict, size, more = SYSTEMS[system](x[train], y[train], seed)
        with np.errstate(all="ignore"):
            values = np.asarray(predict(x[test]), dtype=float)
        predicted[test] = np.where(np.isfinite(values), values, y[train].mean())
        sizes.append(size)
        kept.append(more)
    spent = time.process_time() - cpu
    row = {"system": system, "table": name, "seed": seed, "sizes": sizes, "cpu": spent, "kept": kept}
    return row | {"rows": len(y), "columns": x.shape[1], "predicted": predicted.tolist()}


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(path: Path) -> Iterator[str]:
    """A Markdown table: R2 with the interval of 2,000 bootstrap draws of rows, and the difference from evo's."""
    rows = read_rows(path)
    yield "| table | rows x columns | system | R2 | - evo | size | CPU s a fit |"
    yield "|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(row["table"] for row in rows):
        _x, y = load(name)
        drawn = np.random.default_rng(0).integers(0, len(y), (2000, len(y)))
        errors = {}
        for row in rows:
            if row["table"] == name:
                squares = (np.array(row["predicted"]) - y) ** 2
                errors.setdefault(row["system"], []).append(squares)
        away = (y - y.mean()) ** 2
        base = np.mean(errors["evo"], axis=0) if "evo" in errors else None
        for system, squares in errors.items():
            mean = np.mean(squares, axis=0)
            these = [row for row in rows if row["table"] == name and row["system"] == system]
            cells = [name, f"{len(y)} x {these[0]['columns']}", system, _interval(mean, away, drawn)]
            cells.append("" if system == "evo" or base is None else _interval(mean - base, away, drawn, whole=0.0))
            cells.append(f"{np.mean([row['sizes'] for row in these]):.0f}")
            cells.append(f"{np.mean([row['cpu'] for row in these]) / FOLDS:.2f}")
            yield "| " + " | ".join(cells) + " |"


def _interval(squares: np.ndarray, away: np.ndarray, drawn: np.ndarray, whole: float = 1.0) -> str:
    values = whole - squares[drawn].mean(1) / away[drawn].mean(1)
    low, high = np.percentile(values, [2.5, 97.5])
    sign = "+" if whole == 0 else ""
    return f"{whole - squares.mean() / away.mean():{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("systems", nargs="+", choices=SYSTEMS)
    one.add_argument("--seeds", type=int, default=3)
    one.add_argument("--developed", action="store_true", help="the tables that the recommendation was developed on")
    one.add_argument("-o", "--output", type=Path, required=True)
    commands.add_parser("report").add_argument("file", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "measure":
        measure(given)
    else:
        print("\n".join(report(given.file)))


if __name__ == "__main__":
    main()
