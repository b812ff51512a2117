"""Noise: which row is recommended, the relative loss, and errors that grow with the value."""

import json
import math
import warnings

import numpy as np
import pytest
from support.command_line import refused

from evo.cli import invoke
from evo.plugins.formulas.fit import load_fit, measure
from evo.plugins.formulas.front import FrontRow, recommend
from evo.plugins.formulas.grammar import parse_formula
from evo.plugins.formulas.residuals import find_growth
from evo.plugins.formulas.search import search_formulas, weigh_errors

FEW = ["--evaluations", "300", "--plain"]


def row(text, r2, **given):
    formula = parse_formula(text, ("a", "b"))
    return FrontRow(formula, ("a", "b"), text, formula.size, 1 - r2, r2, **given)


SMALL, LARGE = "2.0*a", "2.0*a + 0.1*sin(3.0*b)"


@pytest.mark.parametrize(
    ("small", "large", "chosen"),
    [
        ({}, {}, 1),  # as a model without held-out rows
        ({"test_r2": 0.90}, {"test_r2": 0.99}, 1),
        ({"test_r2": 0.95}, {"test_r2": 0.94}, 0),
        ({"test_r2": 0.95}, {"test_r2": None, "undefined": 2}, 0),
        ({"test_r2": None, "undefined": 2}, {"test_r2": None, "undefined": 2}, 1),
    ],
)
def test_a_row_that_a_third_of_its_size_beats_on_held_out_rows_is_not_recommended(small, large, chosen):
    rows = [row(SMALL, 0.90, **small), row(LARGE, 0.99, **large)]
    assert [each.complexity for each in rows] == [3, 10]
    assert recommend(rows, 100, 1e-13) is rows[chosen]


def test_errors_of_a_few_rows_justify_fewer_nodes():
    """Of 200 rows: 7 nodes and 2 constants more cost (.6*7 + 2)*log(200) = 32.8, and each row gains log(.010/.007) less
    2*log(.9855/.965), .315: 63 in all of normal errors, 13 of those with a kurtosis of 15."""
    for tail, chosen in ((3.0, 1), (2.0, 1), (15.0, 0), (600.0, 0)):
        rows = [row(SMALL, 0.990, tail=tail), row(LARGE, 0.993, tail=tail)]
        assert recommend(rows, 200, 1e-13) is rows[chosen]


def test_noise_that_is_a_share_of_the_value_does_not_hide_the_law():
    rng = np.random.default_rng(0)
    rows = rng.uniform(1, 4, (120, 2))
    goal = 3 * rows[:, 0] ** 1.75 / rows[:, 1] ** 2 * np.exp(rng.normal(0, 0.02, 120))
    for loss in ("squared", "relative"):
        best = search_formulas(rows, goal, evaluations=6000, seed=1, loss=loss).best
        assert best.complexity == 8  # 3.0*(x1**1.75/x2**2), of 32 nodes before
    exponent = next(value for value in best.formula.values if 1 < value < 2)
    assert exponent == pytest.approx(1.75, abs=0.02)


@pytest.mark.parametrize(("text", "size"), [("1.6*log(x2) + 0.85*x1", 8), ("0.64/(x1*x2)**2 + 0.81*sqrt(x3)", 11)])
def test_a_sum_of_two_terms_is_found_below_noise(text, size):
    """One term at a time, sqrt(x1*x2) hides the first; its best row had 35 nodes."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(1, 5, (96, 4))
    rows[:, 2] = rng.uniform(0.5, 3, 96)
    goal = np.array(
        [eval(text.replace("^", "**"), {"log": math.log, "sqrt": math.sqrt, "x1": a, "x2": b, "x3": c})
         for a, b, c, _d in rows]
    )  # fmt: skip
    best = search_formulas(rows, goal + 0.05 * goal.std() * rng.normal(size=96), evaluations=4000).best
    assert abs(best.complexity - size) <= 3 and best.r2 > 0.99


# -- the relative loss -------------------------------------------------------------------------------------------------


def test_the_relative_loss_is_the_mean_square_of_shares():
    """Of the targets 1 and 2 the best constant is (1 + 1/2) / (1 + 1/4) = 1.2, with shares of .2 and -.4."""
    rows = np.random.default_rng(0).uniform(1, 2, (40, 1))
    goal = np.tile([1.0, 2.0], 20)
    for scale in (1.0, 1e7, 1e-150):
        first = search_formulas(rows, goal * scale, evaluations=1, loss="relative")[0]
        assert first.formula.values[0] == pytest.approx(1.2 * scale, rel=1e-3)
        assert first.loss == pytest.approx((0.2**2 + 0.4**2) / 2) and first.r2 == pytest.approx(0, abs=1e-9)
    doubled = search_formulas(rows, goal, evaluations=1, loss="relative", sample_weight=np.tile([3.0, 1.0], 20))[0]
    constant = (3 + 1 / 2) / (3 + 1 / 4)
    assert doubled.formula.values[0] == pytest.approx(constant, rel=1e-3)
    assert doubled.loss == pytest.approx((3 * (constant - 1) ** 2 + (constant / 2 - 1) ** 2) / 4)


def test_weights_of_a_loss():
    assert weigh_errors(np.array([1.0, -2.0]), None, "relative").tolist() == pytest.approx([1.6, 0.4])
    assert weigh_errors(np.array([1.0, -2.0]), np.array([1.0, 4.0]), "relative").tolist() == pytest.approx([1.0, 1.0])
    assert weigh_errors(np.array([1.0, 0.0]), None, "squared") is None
    assert weigh_errors(np.array([1.0, 2.0]), np.zeros(2), "relative").tolist() == [0, 0]
    assert weigh_errors(np.empty(0), None, "relative").size == 0  # none held out
    for bad in ([1.0, 0.0], [1.0, 1e-13]):
        with pytest.raises(ValueError, match="1 of 2 rows has 0 or almost 0"):
            weigh_errors(np.array(bad), None, "relative")
    with pytest.raises(ValueError, match="there is no loss 'huber'; there is squared and relative"):
        weigh_errors(np.array([1.0]), None, "huber")


def test_held_out_rows_are_weighed_as_the_fitted_ones():
    """Of 0, 2, 4 with weights 1, 1, 2 the mean is 2.5; the squares around it are 6.25 + .25 + 2 * 2.25 = 11."""
    formula, x, y = parse_formula("x", ("x",)), np.array([[1.0], [2.0], [5.0]]), np.array([0.0, 2.0, 4.0])
    assert measure(formula, x, y)[0] == pytest.approx(1 - 2 / 8)
    assert measure(formula, x, y, np.array([1.0, 1.0, 2.0]))[0] == pytest.approx(1 - (1 + 2 * 1) / 11)


@pytest.fixture
def shares(here):
    """A power law over three powers of ten with errors of 5% of each value, `zero` with a 0 in place of one target."""
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(0, math.log(100), 80)).round(3)
    lines = [f"{a},{rng.uniform(1, 2):.3f},{3 * a**1.5 * (1 + 0.05 * rng.normal()):.6g}" for a in x]
    (here / "shares.csv").write_text("\n".join(["x,other,y", *lines]) + "\n")
    (here / "zero.csv").write_text("\n".join(["x,other,y", *lines[:-1], "1.5,1,0"]) + "\n")
    return here


def test_errors_that_grow_are_said_and_the_relative_loss_fits_them(shares, capsys):
    assert invoke(["fit", "shares.csv", "-y", "y", *FEW]) == 0
    said = "The errors grow with y: their median is"
    remedy = "If they are a share of the value, fit with --loss relative."
    printed = capsys.readouterr().out
    assert said in printed and remedy in printed
    assert invoke(["fit", "show", "shares-y"]) == 0 and said in capsys.readouterr().out
    assert invoke(["fit", "show", "shares-y", "--row", "1"]) == 0 and said not in capsys.readouterr().out
    assert load_fit("shares-y")[0].advice.endswith(remedy)
    assert invoke(["fit", "shares.csv", "-y", "y", "--loss", "relative", "--name", "relative", *FEW]) == 0
    printed = capsys.readouterr().out
    assert said not in printed and "relative RMSE" in printed
    best = load_fit("relative")[0].recommended
    assert best.complexity <= 6 and 0.03 < math.sqrt(best.loss) < 0.07 and best.test_r2 > 0.95
    assert invoke(["fit", "--resume", "relative", "--evaluations", "40", "--plain"]) == 0
    assert load_fit("relative")[0].settings.loss == "relative"
    capsys.readouterr()
    assert "leave out --loss" in refused(capsys, "fit", "--resume", "relative", "--loss", "squared")
    assert invoke(["fit", "zero.csv", "-y", "y", *FEW]) == 0
    assert "give large values small weights with --weights COLUMN" in capsys.readouterr().out
    line = refused(capsys, "fit", "zero.csv", "-y", "y", "--loss", "relative", "--name", "none", *FEW)
    assert "--loss relative, target 'y': a relative loss needs targets other than 0, and 1 of 80 rows has 0" in line


def test_a_target_over_two_powers_of_ten_is_said(here, capsys):
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(0, math.log(200), 80))
    lines = [f"{a:.5g},{b:.5g},{a + rng.normal(0, 0.02):.5g}" for a, b in zip(x, x[::-1], strict=True)]
    (here / "span.csv").write_text("\n".join(["x,z,y", *lines]) + "\n")
    assert invoke(["fit", "span.csv", "-y", "y", *FEW]) == 0
    assert "y spans 2.2 powers of ten, and its largest values decide the fit." in capsys.readouterr().out


def test_growth_needs_rows_and_a_trend():
    rng = np.random.default_rng(0)
    values, errors = np.linspace(1, 10, 60), np.abs(rng.normal(size=60))
    low, high = find_growth(values, errors * values)
    assert 2 < high / low < 9
    assert find_growth(-values, errors * values) == (low, high)
    assert find_growth(values, errors) is None and find_growth(values[:19], errors[:19] * values[:19]) is None
    assert find_growth(values, np.zeros(60)) is None and find_growth(values, errors / values) is None


def test_a_model_warns_of_errors_that_grow():
    evo = pytest.importorskip("evo")
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    x = rng.uniform(1, 9, (100, 1))
    law = 2 * x[:, 0] ** 2
    goal = law * (1 + 0.05 * rng.normal(size=100))
    with pytest.warns(UserWarning, match="The errors grow with y: .* loss='relative' suits them"):
        evo.FormulaRegressor(max_evals=300, random_state=0).fit(x, goal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = evo.FormulaRegressor(max_evals=300, random_state=0, loss="relative").fit(x, goal)
        evo.FormulaRegressor(max_evals=300, random_state=0).fit(x, law + rng.normal(size=100))
    assert model.get_best().loss == pytest.approx(np.mean((model.predict(x) / goal - 1) ** 2))
    with pytest.raises(ValueError, match="a relative loss needs targets other than 0"):
        evo.FormulaRegressor(loss="relative").fit(x, goal - goal[0])


# -- scores ------------------------------------------------------------------------------------------------------------


def test_a_loss_of_0_has_the_score_of_pysr(here, capsys):
    """PySR: log(10 / 1e-9) / 2 = 11.51 for two nodes more, and inf for a loss of 0 after one above it."""
    rows = np.arange(1.0, 31.0)[:, None]
    front = search_formulas(rows, 2 * rows[:, 0], evaluations=300)
    assert front[len(front) - 1].loss == 0 and front[len(front) - 1].score == math.inf and front[0].score == 0
    noisy = search_formulas(rows, 2 * rows[:, 0] + np.tile([0.1, -0.1, 0.0], 10), evaluations=300)
    for before, after in zip(noisy.rows, noisy.rows[1:], strict=False):
        fall = math.log(before.loss / after.loss) / (after.complexity - before.complexity)
        assert after.score == pytest.approx(fall)
    lines = [f"{k},{k * k % 7},{2 * k}" for k in range(1, 31)]
    (here / "exact.csv").write_text("\n".join(["x,z,y", *lines]) + "\n")
    assert invoke(["fit", "exact.csv", "-y", "y", "--columns", "x,z", *FEW]) == 0
    assert " inf " in capsys.readouterr().out
    saved = load_fit("exact-y")[0]
    assert saved.recommended.loss == 0 and saved.recommended.score == math.inf
    record = json.loads((here / "fits" / "exact-y.json").read_text(), parse_constant=pytest.fail)
    assert record["rows"][saved.best]["score"] is None
