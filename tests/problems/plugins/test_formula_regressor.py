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
assert "FormulaRegressor" in dir(evo) and "problems" not in sys.modules
from evo import *
try:
    evo.FormulaRegressor
except ImportError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0 and "evo-search[formulas]" in ended.stdout and not ended.stderr
