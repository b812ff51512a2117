"""evo.FormulaRegressor: scikit-learn's contract, and what each parameter does."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import evo

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'evo-search[formulas]'")

from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
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
    chosen = equations(noisy).index(noisy.get_best().equation)
    assert noisy.sympy() == noisy.sympy(chosen) and noisy.latex() == noisy.latex(chosen)
    space = {}
    exec(noisy.python(), space)
    assert np.allclose(space["f"](*X.T), noisy.predict(X))


def test_the_chosen_row_follows_model_selection(noisy):
    losses = noisy.equations_.loss
    for selection in ("accuracy", "score", "best", "description"):
        model = pickle.loads(pickle.dumps(noisy)).set_params(model_selection=selection)
        assert model.get_best() == noisy.front_.select(selection)
    assert noisy.set_params(model_selection="accuracy").get_best().loss == losses.min()
    noisy.set_params(model_selection="best")
    with pytest.raises(ValueError, match="model_selection"):
        fitted(model_selection="worst").fit(X, LAW)


def test_one_seed_gives_the_same_formulas(noisy):
    again = clone(noisy).fit(X, NOISY)
    shuffled = RNG.permutation(60)
    assert equations(again) == equations(noisy) == equations(clone(noisy).fit(X[shuffled], NOISY[shuffled]))


def test_names_of_a_data_frame_and_given_ones():
    pandas = pytest.importorskip("pandas")
    model = fitted().fit(pandas.DataFrame(X, columns=["m", "r"]), LAW)
    assert str(model.sympy()) == "2.5*m**2/r" and list(model.feature_names_in_) == ["m", "r"]
    assert str(fitted().fit(X, LAW, variable_names=["a", "b"]).sympy()) == "2.5*a**2/b"
    with pytest.raises(ValueError, match="3 variable_names for 2 columns"):
        fitted().fit(X, LAW, variable_names=["a", "b", "c"])


def test_grids_and_pipelines():
    pipeline = make_pipeline(FunctionTransformer(np.log), fitted(unary_operators=["exp"], max_evals=60))
    grid = GridSearchCV(pipeline, {"formularegressor__maxsize": [1, 20]}, cv=2).fit(X, X[:, 0] / X[:, 1])
    assert grid.best_params_ == {"formularegressor__maxsize": 20} and grid.best_score_ > 0.999


def test_only_the_given_functions_occur():
    model = fitted(binary_operators=["+", "*"], unary_operators=["sin"]).fit(X, NOISY)
    assert not any(sign in text for text in equations(model) for sign in ("/", " - ", "**", "exp", "sqrt"))
    assert model.score(X, NOISY) > 0.9
    with pytest.raises(ValueError, match="no function 'sn'"):
        fitted(unary_operators=["sn"]).fit(X, LAW)


def test_a_guess_is_kept_if_it_is_good():
    goal = np.sin(3.7 * X[:, 0] + np.exp(X[:, 1]))
    model = fitted(guesses=["sin(3.6*x0 + exp(x1))"], max_evals=60, model_selection="accuracy").fit(X, goal)
    assert model.score(X, goal) > 0.999


def test_a_notebook_shows_the_front(noisy):
    page = noisy._repr_mimebundle_()["text/html"]
    assert "sk-" in page and noisy.get_best().text(4) in page and noisy.get_best().text(4) in noisy._repr_html_()
    assert "complexity" not in fitted()._repr_html_() and "<th>complexity</th>" in page
    with config_context(display="text"):
        assert "text/html" not in noisy._repr_mimebundle_()


def test_a_budget_is_needed():
    with pytest.raises(ValueError, match="max_evals or timeout_in_seconds"):
        fitted(max_evals=None).fit(X, LAW)


def test_the_package_loads_without_scikit_learn():
    code = """
import sys
sys.modules["sklearn"] = None
import evo
assert "FormulaRegressor" in dir(evo)
from evo import *
try:
    evo.FormulaRegressor
except ImportError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0 and "evo-search[formulas]" in ended.stdout and not ended.stderr


def depth(formula):
    return 1 + max(map(depth, formula.arguments()), default=0)


def test_constraints_hold_on_the_whole_front():
    goal = np.sin(X[:, 0] * X[:, 1]) + np.exp(0.3 * X[:, 0]) / X[:, 1] + RNG.normal(0, 0.1, 60)
    free = fitted().fit(X, goal)
    bound = fitted(
        constraints={"sin": 1, "/": (-1, 1)},
        nested_constraints={"exp": {"*": 0}},
        maxdepth=5,
        model_selection="accuracy",
    ).fit(X, goal)
    assert max(depth(row.formula) for row in free.front_) > 5
    assert 2 < max(depth(row.formula) for row in bound.front_) <= 5
    for row in bound.front_:
        text = row.equation
        assert "sin(x0*" not in text and "exp" not in text or "*" not in text.partition("exp(")[2].partition(")")[0]
    assert bound.score(X, goal) > 0.3
    for wrong in ({"/": 3}, {"sin": (1, 2)}, {"sine": 1}):
        with pytest.raises(ValueError, match="constraints|no function"):
            fitted(constraints=wrong).fit(X, goal)


def test_units_penalise_formulas_that_break_them():
    length, other = X.T
    goal = np.sin(length) + length + other  # breaks them
    free = fitted().fit(X, goal, X_units=["m", "m"], y_units="m", variable_names=["a", "b"])
    units = {"X_units": ["m", "s"], "y_units": "m/s", "variable_names": ["a", "b"]}
    assert all("sin(a)" not in row.equation or row.loss >= 1000 for row in free.front_)
    law = fitted().fit(X, length / other, **units)
    assert str(law.sympy()) == "a/b" and law.get_best().loss < 1e-20
    swapped = fitted().fit(X, length / other, **{**units, "X_units": ["s", "m"]})
    assert all(row.equation != "a/b" or row.loss >= 1000 for row in swapped.front_)
    mild = fitted(dimensional_constraint_penalty=1e-3).fit(X, length / other, **{**units, "X_units": ["s", "m"]})
    assert mild.front_.select("accuracy").loss <= 1e-3
    with pytest.raises(ValueError, match="not a unit"):
        fitted().fit(X, goal, X_units=["m", "m+"])
    with pytest.raises(ValueError, match="1 X_units for 2 columns"):
        fitted().fit(X, goal, X_units=["m"])


@pytest.mark.parametrize("loss", ["absolute_error", "L1DistLoss()", "huber(0.1)", lambda p, y: np.abs(p - y)])
def test_a_robust_loss_finds_the_law_among_outliers(loss):
    goal = 2.5 * X[:, 0] + 1.5
    goal[::7] += 40
    model = fitted(elementwise_loss=loss, maxsize=5, max_evals=600).fit(X, goal)
    clean = np.delete(np.arange(60), np.s_[::7])
    assert np.abs(model.predict(X) - goal)[clean].max() < 0.2
    row = model.get_best()
    if loss != "huber(0.1)":
        assert row.loss == pytest.approx(np.abs(row(X) - goal).mean())
    assert np.abs(fitted(maxsize=5).fit(X, goal).predict(X) - goal)[clean].max() > 1


def test_other_losses():
    high = fitted(elementwise_loss="quantile(0.9)", max_evals=200).fit(X, NOISY)
    assert 0.75 <= (high.predict(X) >= NOISY - 1e-6).mean() <= 0.97
    weights = RNG.uniform(0, 1, 60)
    weighted = fitted(elementwise_loss=lambda p, y, w: w * (p - y) ** 2, max_evals=200).fit(X, NOISY, weights)
    assert equations(weighted)[1:3] == equations(fitted(max_evals=200).fit(X, NOISY, weights))[1:3]
    for wrong in ("l3", "huber", "absolute_error(2)", 3, lambda p: p):
        with pytest.raises(ValueError, match="elementwise_loss"):
            fitted(elementwise_loss=wrong).fit(X, LAW)
    with pytest.raises(ValueError, match="one number a row"):
        fitted(elementwise_loss=lambda p, y: 1.0).fit(X, LAW)


def gauss(a):
    return np.exp(-a * a)


@pytest.mark.parametrize("derivative", [None, lambda a: -2 * a * gauss(a)])
def test_a_function_of_ones_own(derivative):
    sympy = pytest.importorskip("sympy")
    own = ("gauss", gauss, derivative, lambda a: sympy.exp(-(a**2)))
    goal = 3 * gauss(X[:, 0]) + X[:, 1]
    model = fitted(binary_operators=["+", "*"], extra_functions=[own], max_evals=2000).fit(X, goal)
    assert "gauss(x0)" in model.get_best().equation and model.score(X, goal) > 1 - 1e-9
    assert model.sympy().has(sympy.exp) and "operatorname{gauss}" in model.latex()
    space = {"gauss": gauss}
    exec(model.python(), space)
    assert np.allclose(space["f"](*X.T), goal)
    guessed = clone(model).set_params(guesses=["gauss(0.9*x0*x1)"], max_evals=40).fit(X, gauss(X[:, 0] * X[:, 1]))
    assert guessed.score(X, gauss(X[:, 0] * X[:, 1])) > 0.999
    if derivative is None:
        again = fitted(extra_functions=[("gauss", gauss)], max_evals=100).fit(X, goal)
        assert np.allclose(pickle.loads(pickle.dumps(again)).predict(X), again.predict(X))
    for wrong in (("sin", gauss), ("a b", gauss), ("gauss",), "gauss"):
        with pytest.raises(ValueError, match="function"):
            fitted(extra_functions=[wrong]).fit(X, goal)


@pytest.mark.long
def test_a_pickle_finds_its_own_functions_in_another_process(tmp_path):
    model = fitted(extra_functions=[("first", np.cbrt), ("second", np.arcsinh)], max_evals=300)
    goal = 2 * np.arcsinh(X[:, 0] * X[:, 1]) + X[:, 1]
    model.set_params(guesses=["2.0*second(1.0*x0*x1) + 1.0*x1"], max_evals=60).fit(X, goal)
    assert "second(" in model.get_best().equation
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    code = f"""
import pickle
from evo.plugins.formulas.grammar import OwnFunction, register
register(OwnFunction("other", abs))
print(pickle.load(open({str(tmp_path / "model")!r}, "rb")).predict([[1.5, 2.5]])[0])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert float(ended.stdout) == pytest.approx(2 * np.arcsinh(1.5 * 2.5) + 2.5), ended.stderr


def test_a_condition_ends_the_search():
    full = fitted().fit(X, NOISY)
    early = fitted(early_stop_condition=2.0).fit(X, NOISY)
    assert early.front_.stopped == "condition" and early.front_.evaluations < full.front_.evaluations
    assert early.front_.select("accuracy").loss < 2.0
    small = fitted(early_stop_condition=lambda loss, complexity: complexity >= 3).fit(X, NOISY)
    assert small.front_.stopped == "condition" and max(row.complexity for row in small.front_) >= 3
    with pytest.raises(ValueError, match="early_stop_condition"):
        fitted(early_stop_condition="f(l, c) = l < 1").fit(X, NOISY)


def test_a_warm_start_continues():
    goal = np.sin(X[:, 0] * 2) * np.exp(-X[:, 1]) + RNG.normal(0, 0.01, 60)
    model = fitted(max_evals=300, warm_start=True).fit(X, goal)
    first = model.front_
    second = model.fit(X, goal).front_
    assert 550 < second.evaluations < 700 and second[len(second) - 1].loss <= first[len(first) - 1].loss
    unpickled = pickle.loads(pickle.dumps(model)).set_params(max_evals=60).fit(X, goal).front_
    assert unpickled.evaluations < 200 and unpickled[len(unpickled) - 1].loss <= second[len(second) - 1].loss * 1.01
    cold = model.set_params(warm_start=False).fit(X, goal).front_
    assert [row.equation for row in cold] == [row.equation for row in first]
