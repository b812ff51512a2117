"""Measures, ranges and cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from islands.population.features import FeatureSpace, check_features, default_dimensions, sketch
from problems.contract import Score, ScorerFault

finite = st.floats(allow_nan=False, allow_infinity=False)


def space(*dimensions: str, bins: int = 10, references: int = 20, objectives=("a", "b")) -> FeatureSpace:
    made = FeatureSpace(objectives, lambda names: (bins,) * len(names), references)
    made.settle(dimensions)
    return made


def test_measures_by_name():
    made = space("complexity", "score", "reward:b", "speed", "diversity")
    score = Score((0.25, 0.75), 0.5, {"speed": 3})
    assert made.measure("abcde", score) == (5.0, 0.5, 0.75, 3.0, 0.0)
    assert space("complexity").measure("abcde", Score((0, 0), 0, {"complexity": 9.0})) == (9.0,)
    check_features(score, made.dimensions, "p")
    said = "p: the grid is spanned by 'speed', which the scorer did not give .it gave no features"
    with pytest.raises(ScorerFault, match=said):
        check_features(Score((0, 0), 0), made.dimensions, "p")
    with pytest.raises(ValueError, match="'reward:c', but the objectives are a, b"):
        space("reward:c")


def test_dimensions_by_default_and_by_rewards():
    assert default_dimensions(["z", "y"]) == ("y", "z")
    assert default_dimensions([]) == default_dimensions("abcd") == ("complexity", "diversity")
    made = space("score", "rewards")
    assert made.dimensions == ("score", "reward:a", "reward:b")


def test_sketches_tell_texts_apart():
    text = "def f(x):\n    return x + 1\n" * 20
    assert sketch(text).sum() == pytest.approx(1) and not sketch("ab").any()
    near, far = text.replace("x + 1", "x + 2", 1), "import numpy as np\nprint(np.zeros(3).sum())\n" * 20
    distance = lambda other: np.abs(sketch(text) - sketch(other)).sum() / 2  # noqa: E731
    assert distance(text) == 0 < distance(near) < 0.1 < distance(far) <= 1
    long = "x" * 10_000_000
    assert np.array_equal(sketch(long), sketch(long[:100_000]))  # the cost is bounded
    sketch("\ud83d lone")


def test_diversity_is_measured_against_the_first_answers_for_good():
    made = space("diversity", references=2)
    score = Score((0, 0), 0)
    assert made.references_missing == 2 and made.measure("first answer", score) == (0.0,)
    made.measure("second thing", score)
    before = made.measure("third of them", score)
    assert made.references_missing == 0 and made.measure("third of them", score) == before
    assert 0 < before[0] <= 1


@settings(max_examples=300, deadline=None)
@example([(0.0, 0.0), (0.0, 5e-324)], 1)  # a range whose half is zero
@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=40), st.integers(1, 12))
def test_ranges_hold_all_values_and_cells_are_bins(points, bins):
    made = space("x", "y", bins=bins)
    for point in points:
        grew = made.observe(point)
        assert not made.observe(point)
        for value, low, high in zip(point, made.low, made.high, strict=True):
            assert -math.inf < low <= value <= high < math.inf
        assert grew or made.cell(point)
    for point in points:
        assert all(0 <= c < bins for c in made.cell(point))
    ordered = sorted(points)
    firsts = [made.cell(point)[0] for point in ordered]
    assert firsts == sorted(firsts)  # bins keep the order of the values


@settings(deadline=None)
@given(st.integers(2, 20))
def test_outermost_bins_stay_in_use(bins):
    made = space("x", bins=bins)
    for value in (0.0, 0.5, 1.0, -1.0, 4.0, -4.0):
        made.observe((value,))
        if made.high[0] > made.low[0]:
            assert made.cell((value,))[0] in (0, bins - 1) or value == 0.5
    assert made.cell((4.0,)) == (bins - 1,) and made.cell((-4.0,)) == (0,)


def test_an_ever_growing_value_rescales_ever_more_rarely():
    made = space("x")
    growths = [made.observe((float(n),)) for n in range(100_000)]
    assert sum(growths) < 260 and sum(growths[50_000:]) < 20  # log(100,000) / log(1.05) = 236
