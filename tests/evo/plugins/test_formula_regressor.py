"""evo.FormulaRegressor: scikit-learn's contract, and what each parameter does."""

import pickle
import sys

import numpy as np
import pytest

import evo

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'evo-search[formulas]'")

from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

RNG = np.random.default_rng(0)
X = RNG.uniform(1, 4, (60, 2))
LAW = 2.5 * X[:, 0] ** 2 / X[:, 1]
NOISY = LAW + RNG.normal(0, 0.5, 60)


def fitted(**parameters):
    return evo.FormulaRegressor(**{"max_evals": 400, "random_state": 0, **parameters})


def equations(model):
    return [row.equation for row in model.front_]


@parametrize_with_checks([evo.FormulaRegressor(max_evals=110, random_state=0)])
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def noisy():
    return fitted().fit(X, NOISY)


def test_the_front_is_a_table_and_its_rows_predict(noisy):
    pandas = pytest.importorskip("pandas")
    table = noisy.equations_
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == ["complexity", "loss", "score", "equation", "sympy_format", "lambda_format"]
    assert table.complexity.is_monotonic_increasing and table.loss.is_monotonic_decreasing
    for index, row in table.iterrows():
        assert np.allclose(noisy.predict(X, index=index), row.lambda_format(X))
        assert row.loss == pytest.approx(np.mean((noisy.predict(X, index) - NOISY) ** 2))
    best = noisy.get_best()
    assert best["equation"] == best.equation and best["sympy_format"] == best.sympy()  # as in PySR
    chosen = equations(noisy).index(best.equation)
    assert noisy.sympy() == noisy.sympy(chosen) and noisy.latex() == noisy.latex(chosen)
    space = {}
    exec(noisy.python(), space)
    assert np.allclose(space["f"](*X.T), noisy.predict(X))


def test_names_of_a_data_frame_and_given_ones():
    pandas = pytest.importorskip("pandas")
    model = fitted().fit(pandas.DataFrame(X, columns=["m", "r"]), LAW)
    assert str(model.sympy()) == "2.5*m**2/r" and list(model.feature_names_in_) == ["m", "r"]
    assert str(fitted().fit(X, LAW, variable_names=["a", "b"]).sympy()) == "2.5*a**2/b"
    for parameters, given, message in (
        ({}, {"variable_names": ["a", "b", "c"]}, "3 variable_names for 2 columns"),
        ({}, {"variable_names": ["a", "a"]}, "several columns with the name 'a'"),
        ({}, {"X_units": ["m", "m+"]}, "not a unit"),
        ({}, {"X_units": ["m"]}, "1 X_units for 2 columns"),
        ({"max_evals": None}, {}, "max_evals or timeout_in_seconds"),
        ({"unary_operators": ["sn"]}, {}, "'sn'"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(**parameters).fit(X, LAW, **given)


def test_only_the_given_functions_occur_and_the_order_of_rows_is_nothing():
    given = fitted(binary_operators=["+", "*"], unary_operators=["sin"])
    model, shuffled = given.fit(X, NOISY), RNG.permutation(60)
    assert not any(sign in text for text in equations(model) for sign in ("/", " - ", "**", "exp", "sqrt"))
    assert model.score(X, NOISY) > 0.9
    assert equations(model) == equations(clone(given).fit(X[shuffled], NOISY[shuffled]))


def test_the_package_loads_without_scikit_learn(monkeypatch):
    monkeypatch.delitem(sys.modules, "evo.plugins.formulas.estimator")
    for name in [name for name in sys.modules if name.partition(".")[0] == "sklearn"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert "FormulaRegressor" in dir(evo) and "FormulaRegressor" not in evo.__all__, "a star imports no extra"
    with pytest.raises(ImportError, match=r"evo-search\[formulas\]"):
        _ = evo.FormulaRegressor


def test_formulas_that_break_the_units_are_left_out():
    length, other = X.T
    goal = np.sin(length) + length + other  # breaks them
    model = fitted().fit(X, goal, X_units=["m", "m"], y_units="m", variable_names=["a", "b"])
    assert len(model.front_) > 1 and not any("sin(a)" in row.equation for row in model.front_)
    units = {"X_units": ["m", "s"], "y_units": "m/s", "variable_names": ["a", "b"]}
    law = fitted().fit(X, length / other, **units)
    assert str(law.sympy()) == "a/b" and law.get_best().loss < 1e-20
    swapped = fitted().fit(X, length / other, **{**units, "X_units": ["s", "m"]})
    assert all(row.equation != "a/b" for row in swapped.front_)


def test_outliers_of_small_weight_do_not_hide_the_law():
    goal = 2.5 * X[:, 0] + 1.5
    goal[::7] += 40
    weights = np.ones(60)
    weights[::7] = 1e-6
    clean = weights == 1
    model = fitted(maxsize=5).fit(X, goal, weights)
    assert np.abs(model.predict(X) - goal)[clean].max() < 0.2
    assert np.abs(fitted(maxsize=5).fit(X, goal).predict(X) - goal)[clean].max() > 1


def test_the_front_of_one_search_begins_another():
    goal = np.sin(X[:, 0] * 2) * np.exp(-X[:, 1]) + RNG.normal(0, 0.01, 60)
    first = pickle.loads(pickle.dumps(fitted(max_evals=300).fit(X, goal))).front_
    second = fitted(max_evals=60, guesses=[row.formula for row in first]).fit(X, goal).front_
    assert second.evaluations < 200 and second[len(second) - 1].loss <= first[len(first) - 1].loss * 1.01


TIMES = np.arange("2026-01-01", "2026-03-02", dtype="datetime64[D]")


@pytest.mark.parametrize(
    "times",
    [
        lambda pandas: TIMES,
        lambda pandas: pandas.Series(TIMES).dt.tz_localize("UTC"),
        lambda pandas: TIMES - TIMES[0],
        lambda pandas: pandas.period_range("2026-01", periods=60, freq="M"),
        lambda pandas: pandas.Series(TIMES.tolist(), dtype=object),  # dates of the standard library
    ],
    ids=["datetimes", "with a zone", "differences", "periods", "dates"],
)
def test_times_are_refused_by_the_name_of_their_column(times):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "when": times(pandas)})
    with pytest.raises(
        ValueError, match=r"^column 'when' has times, not numbers: give the seconds since the first, .*$"
    ):
        fitted().fit(frame, LAW)
    with pytest.raises(ValueError, match="^y has times"):
        fitted().fit(X, frame["when"])
    with pytest.raises(ValueError, match="^X has times"):
        fitted().fit(frame[["when"]].to_numpy(), LAW)
    seconds = frame.assign(when=np.arange(60.0))
    assert fitted(max_evals=20).fit(seconds, LAW).n_features_in_ == 2
    with pytest.raises(ValueError, match="^column 'when' has text, such as '2026-01-01', not numbers: .*$"):
        fitted().fit(frame.assign(when=TIMES.astype(str)), LAW)


def test_names_that_formulas_cannot_write_are_replaced_with_a_warning():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a-b", "lambda"])
    with pytest.warns(UserWarning, match="'a-b' to a_b, 'lambda' to lambda_"):
        model = fitted(max_evals=20, guesses=["1.0*a-b**2/lambda"]).fit(frame, X[:, 0] ** 2 / X[:, 1])
    assert model.front_.names == ("a_b", "lambda_") and set(map(str, model.sympy().free_symbols)) <= {"a_b", "lambda_"}
    assert np.allclose(model.predict(frame), X[:, 0] ** 2 / X[:, 1])
