"""What is known to have fooled evaluators of these problems scores here what the construction is worth."""

import math
from fractions import Fraction

import numpy as np
import pytest

from evo.plugins.maths.circles import outside, overlapping
from evo.plugins.maths.family import TASKS
from evo.plugins.maths.task import Unfit
from evo.plugins.maths.values import read_numbers
from problems import resolve


def measure(name, construction, size=1000):
    return TASKS[name].measure(construction, size)


def score(name, code):
    (problem,) = resolve(f"maths:{name}")
    return problem.score(code)


GRID = [((i % 4 + 0.5) / 4, (i // 4 + 0.5) / 4, 0.125) for i in range(16)]


# -- packings --------------------------------------------------------------------------------------


def test_a_grid_of_touching_circles_is_feasible_as_it_is():
    measured = measure("circle_packing_26", GRID, 16)
    assert measured.value == 2 and measured.repair == ""


@pytest.mark.parametrize("excess", [1e-6, 3e-7, 1e-9, 1e-12, 2.0**-50])
def test_overlap_within_anyones_tolerance_is_shrunk_away(excess):
    fat = [(x, y, r * (1 + excess)) for x, y, r in GRID]
    measured = measure("circle_packing_26", fat, 16)
    assert measured.raw > 2 >= measured.value > 2 - 1e-9
    assert "all radii were multiplied" in measured.repair


def test_what_is_shrunk_is_feasible_in_exact_arithmetic():
    rng = np.random.default_rng(5)
    from evo.plugins.maths.circles import shrink

    for _ in range(20):
        circles = [tuple(row) for row in (rng.random((12, 3)) * (1, 1, 0.2)).tolist()]
        shrunk, _ = shrink(circles, walls=True)
        assert overlapping(shrunk) is None and outside(shrunk) is None


def test_radii_below_zero_gain_nothing():
    assert measure("circle_packing_26", [*GRID[:15], (0.5, 0.5, -7.0)], 16).value <= 15 / 8


@pytest.mark.parametrize(
    ("name", "construction", "size", "said"),
    [
        ("circle_packing_26", [*GRID[:15], (1.5, 0.5, 0.3)], 16, "outside"),
        ("circle_packing_26", [*GRID[:15], (1e300, 0.5, 1e300)], 16, "a circle at"),
        ("circle_packing_26", [*GRID, (0.01, 0.01, 0.001)], 16, "17 circles, where 16 belong"),
        ("heilbronn_convex", [(0.1 * i, 0.0) for i in range(13)], 13, "one line"),
        ("distance_ratio_2d", [(0.0, 0.0)] * 16, 16, "coincide"),
        # squares of such distances are 0 in floats
        ("distance_ratio_2d", [(1e-200 * i, 0.0) if i < 2 else (float(i), 1.0) for i in range(16)], 16, "coincide"),
        ("kissing_number", [[0.4, 0.4, 0.4]], 3, "no vector but 0"),
        ("autocorrelation_3", [1.0, -1.0], 50, "integral is 0"),
        ("autocorrelation_1", [1.0] * 51, 50, "51 heights, where at most 50 were asked for"),
    ],
)
def test_what_constructs_nothing_that_was_asked_for_is_refused(name, construction, size, said):
    with pytest.raises(Unfit, match=said):
        measure(name, construction, size)


def test_a_rectangle_that_is_too_large_is_scaled_not_believed():
    large = [(3 * x, 3 * y, 3 * r) for x, y, r in GRID]
    assert measure("circle_packing_rect", large, 16).value == measure("circle_packing_rect", GRID, 16).value == 2


# -- points ----------------------------------------------------------------------------------------


def test_a_point_outside_the_triangle_is_moved_to_its_edge():
    corners = [(0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(3) / 2)]
    inner = [(0.5, 0.2), (0.4, 0.35), (0.62, 0.41), (0.3, 0.1)]
    honest = measure("heilbronn_triangle", [*corners, *inner], 7)
    stretched = [(-1e-6, -1e-6), (1 + 1e-6, -1e-6), (0.5, math.sqrt(3) / 2 + 1e-6)]
    cheat = measure("heilbronn_triangle", [*stretched, *inner], 7)
    assert cheat.raw != cheat.value and "moved to the edge" in cheat.repair
    assert float(cheat.value) == pytest.approx(float(honest.value), abs=1e-12)
    far = [(-50.0, -50.0), (60.0, -50.0), (0.5, 99.0)]
    assert float(measure("heilbronn_triangle", [*far, *inner], 7).value) == pytest.approx(
        float(honest.value), abs=1e-12
    )


def test_tiny_coordinates_do_not_underflow_to_a_perfect_ratio():
    square = [(0.0, 0.0), (1e-170, 0.0), (0.0, 1e-170), (1e-170, 1e-170)] * 2
    distinct = [(x + 3e-170 * (i // 4), y) for i, (x, y) in enumerate(square)]
    assert measure("distance_ratio_2d", distinct, 8).value == pytest.approx(17, rel=1e-12)


# -- kissing ---------------------------------------------------------------------------------------


def test_integers_that_overflow_64_bits_are_counted_exactly():
    """In 64 bits these squares wrap, and vectors that lie close together seem far apart."""
    size = 1 << 40
    close = [[size, 0, 0], [size, 1, 0], [0, size, 0], [-size, 0, 0]]
    assert measure("kissing_number", close, 3).value == 3
    lattice = [[size * a, size * b, 0] for a in (-1, 1) for b in (-1, 1)]
    assert measure("kissing_number", lattice, 3).value == 4


def test_large_integers_that_all_conflict_are_counted_in_no_time():
    """Constructions made to keep the measuring busy: compared by rank, not as large integers again and again."""
    rng = np.random.default_rng(2)
    vectors = [[(1 << 400) + int(x) for x in row] for row in rng.integers(0, 1 << 60, (300, 11))]
    assert measure("kissing_number", vectors, 11).value == 1


def test_zero_vectors_copies_and_roundings_do_not_count():
    four = [[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]]
    measured = measure("kissing_number", [*four, [0, 0, 0], [1, 1, 0], [1.2, 0.9, 0.3]], 3)
    assert measured.value == 4 and measured.raw == 7 and "left out" in measured.repair


def test_known_lattices_have_their_numbers():
    d4 = [[a if k == i else b if k == j else 0 for k in range(4)]
          for i in range(4) for j in range(i) for a in (-1, 1) for b in (-1, 1)]  # fmt: skip
    assert measure("kissing_number", d4, 4).value == 24
    halves = [[1 if m >> k & 1 else -1 for k in range(8)] for m in range(256) if m.bit_count() % 2 == 0]
    e8 = halves + [[2 * a if k == i else 2 * b if k == j else 0 for k in range(8)]
                   for i in range(8) for j in range(i) for a in (-1, 1) for b in (-1, 1)]  # fmt: skip
    assert measure("kissing_number", e8, 8).value == 240


# -- step functions --------------------------------------------------------------------------------


def test_an_integral_that_is_off_and_a_claim_that_is_near_gain_nothing():
    """Both are believed by an evaluator with tolerances: 1e-3 for the integral, 1e-4 for the claim."""
    honest = measure("erdos_min_overlap", [0.5] * 50, 50)
    assert honest.value == Fraction(1, 2)
    light = measure("erdos_min_overlap", ([0.5 * (1 - 9e-4)] * 50, 0.4999, 50))
    assert light.value == Fraction(1, 2) and light.raw < 0.5 and "was made 1" in light.repair
    assert measure("erdos_min_overlap", [0.0] * 50, 50).value == Fraction(1, 2)
    assert measure("erdos_min_overlap", [-5.0, 7.0], 2).value == measure("erdos_min_overlap", [0.0, 1.0], 2).value


def test_blending_keeps_the_integral_at_one():
    from evo.plugins.maths.steps import _blended

    for heights in ([0.1, 0.9, 0.2], [0.9, 0.9, 1.0], [1 / 3] * 7):
        top, bottom = _blended(heights)
        assert 2 * sum(top) == len(top) * bottom and min(top) >= 0 and max(top) <= bottom


def test_negative_heights_do_not_lower_the_first_bound():
    flat, dipped = [1.0] * 50, [1.0] * 49 + [-30.0]
    assert measure("autocorrelation_1", flat, 50).value == 2
    assert measure("autocorrelation_1", dipped, 50).value == measure("autocorrelation_1", [1.0] * 49 + [0.0], 50).value
    assert (
        measure("autocorrelation_2", [1.0, -1e-6, 2.0], 50).value == measure("autocorrelation_2", [1, 0, 2], 50).value
    )


@pytest.mark.parametrize("name", ["autocorrelation_1", "autocorrelation_2", "autocorrelation_3"])
@pytest.mark.parametrize("scale", [1e-161, 5e-300, 1e290])
def test_heights_that_underflow_or_overflow_are_worth_the_same(name, scale):
    heights = [1.0, 2.0, 3.0, 2.5]
    scaled = measure(name, [height * scale for height in heights], 50).value
    assert scaled == pytest.approx(float(measure(name, heights, 50).value), rel=1e-12)


def test_the_third_bound_counts_the_convolution_below_zero():
    """max(f * f) alone would be small here, and a claim within 1e-3 of it believed."""
    heights = [1.0, -0.9, 1.0, 0.2]
    products = np.convolve(heights, heights)
    largest = 2 * 4 * np.abs(products).max() / sum(heights) ** 2
    assert measure("autocorrelation_3", (heights, 0.1, 0.0, 4)).value == pytest.approx(largest)


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1 + 3j, float("nan"), float("inf"), "1.0", None, [1.0, 2.0], 10**400])
def test_what_is_no_real_number_is_refused(number):
    with pytest.raises(Unfit):
        read_numbers([1.0, number], "heights")


# -- in the sandbox --------------------------------------------------------------------------------

RATIO = "[(float(i % 4), float(i // 4)) for i in range(n)]"
HONEST = f"def construct(n):\n    return {RATIO}\n"
TRICKS = {
    "a score function of its own": f"def score(*a): return 1e308\nmeasure = evaluate = get_score = score\n{HONEST}",
    "a patched library": (
        "import fractions, math, itertools, builtins\n"
        "fractions.Fraction.__new__ = lambda *a: 1\nmath.hypot = lambda *a: 1e9\nbuiltins.min = lambda *a, **k: 1\n"
        + HONEST
    ),
    "this package's modules": (
        "try:\n    import evo.plugins.maths.task as t\n    t.MathsTask.fitness = lambda *a: 1e9\n"
        "    import evo.plugins.maths.points as d\n    d.measure_ratio = lambda *a: 1\n"
        "except (ImportError, PermissionError):\n    pass\n" + HONEST
    ),
    "a subclass of float": "class Big(float):\n    __sub__ = __rsub__ = lambda *a: 1e9\n    __lt__ = lambda *a: True\n"
    f"def construct(n):\n    return [(Big(x), Big(y)) for x, y in {RATIO}]\n",
}


@pytest.mark.parametrize("trick", sorted(TRICKS))
def test_nothing_done_inside_the_sandbox_changes_the_score(trick):
    honest = score("distance_ratio_2d", HONEST)
    assert honest.fitness == pytest.approx(1 / 18) and honest.error is None
    found = score("distance_ratio_2d", TRICKS[trick])
    assert (found.fitness, found.rewards) == (honest.fitness, honest.rewards)


@pytest.mark.parametrize(
    "body",
    [
        "return [(complex(i, 1), 0.0) for i in range(n)]",
        "return 'n' * n",
        "return None",
        "raise SystemExit(0)",
        "import os; os._exit(0)",
        "return [(float('nan'), 0.0)] * n",
        "return [[float(i)] * 3 for i in range(n)]",
        "return {'points': 1e308}",
        "while True: pass",
    ],
)
def test_what_constructs_nothing_scores_nothing(body, monkeypatch):
    (problem,) = resolve("maths:distance_ratio_2d")
    monkeypatch.setattr(problem, "_limits", type(problem._limits)(1.0, 10.0))
    found = problem.score(f"def construct(n):\n    {body}\n")
    assert found.fitness == 0 and not any(found.rewards) and found.error
