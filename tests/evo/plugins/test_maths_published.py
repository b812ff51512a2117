"""The measuring of `maths:` gives published constructions the values that were recomputed for them."""

import json
import lzma
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from evo.plugins.maths.family import TASKS
from evo.plugins.maths.task import Best

PUBLISHED = json.loads(
    lzma.decompress((Path(__file__).parents[2] / "fixtures" / "maths" / "alphaevolve.json.xz").read_bytes())
)


CASES = [
    ("circle_packing_26", PUBLISHED["circles_26_v2"], 26, 2.6359830849176076),
    ("circle_packing_32", PUBLISHED["circles_32_v2"], 32, 2.9395727712063233),
    ("circle_packing_rect", PUBLISHED["rect_21"], 21, 2.3658321712),
    ("circle_packing_rect", PUBLISHED["rect_21_v2"], 21, 2.36583237591),
    ("heilbronn_triangle", PUBLISHED["heil_tri_11"], 11, 0.036529889880030156),
    ("heilbronn_convex", PUBLISHED["heil_con_13"], 13, 0.030936889034895654),
    ("heilbronn_convex", PUBLISHED["heil_con_14"], 14, 0.027835571458482138),
    ("distance_ratio_2d", PUBLISHED["ratio_2_16"], 16, 12.88926611203463),
    ("distance_ratio_3d", PUBLISHED["ratio_3_14"], 14, 4.1658497672256525),
    ("kissing_number", PUBLISHED["kissing_11"], 11, 593),
    ("erdos_min_overlap", PUBLISHED["erdos_95"], None, 0.38092303510845016),
    ("autocorrelation_1", PUBLISHED["ac1_600"], 600, 1.5052939684401607),
    ("autocorrelation_1", PUBLISHED["ac1_v2"], None, 1.503163554681561),
    ("autocorrelation_2", PUBLISHED["ac2_50"], 50, 0.8962799441554086),
    ("autocorrelation_3", PUBLISHED["ac3_150"], 200, 1.4687620697),
    # published as 1.4556 with max(f * f), which leaves out that |f * f| is three times as large
    ("autocorrelation_3", PUBLISHED["ac3_400"], 400, 4.334046524387984),
]


@pytest.mark.parametrize(("name", "construction", "size", "value"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
def test_a_published_construction_has_its_value(name, construction, size, value):
    task = TASKS[name]
    measured = task.measure(construction, size or 30_000)
    assert isinstance(measured.value, Fraction)
    assert float(measured.value) == pytest.approx(value, rel=1e-10)
    assert not measured.repair or "1 " in measured.repair or "all radii" in measured.repair
    # and it is taken for no record
    assert not task.beats(size if size in task.instances else task.headline, measured.value, Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("name", "published", "within", "beyond"),
    [
        ("distance_ratio_2d", Best(12.889, "rounded", decimals=3), "12.8885", "12.8884"),
        ("autocorrelation_2", TASKS["autocorrelation_2"].best, "0.962584", "0.962586"),
    ],
)
def test_a_record_beats_the_rounding_of_a_published_value(name, published, within, beyond):
    task = replace(TASKS[name], headline=1, instances={1: published})
    assert not task.beats(1, Fraction(within), Fraction(1, 10**9))
    assert task.beats(1, Fraction(beyond), Fraction(1, 10**9))


def test_every_value_of_few_digits_has_its_decimals():
    """The others have more digits than a record has to beat, or are exact."""
    for task in TASKS.values():
        for best in task.instances.values():
            digits = len(repr(float(best.value)).replace(".", "").strip("0"))
            assert best.decimals is not None or digits > 8 or float(best.value).is_integer(), (task.name, best)
