"""The measuring of `maths:` gives published constructions the values that were recomputed for them."""

import json
import lzma
from fractions import Fraction
from pathlib import Path

import pytest

from problems.plugins.maths.family import TASKS
from problems.plugins.maths.uncertainty import bound_of_hermite, bound_of_roots

PUBLISHED = json.loads(
    lzma.decompress((Path(__file__).parents[2] / "fixtures" / "maths" / "alphaevolve.json.xz").read_bytes())
)


def hexagons(key):
    inner, (x, y), angle, side = PUBLISHED[key]
    return inner, (x, y, angle), side


CASES = [
    ("circle_packing_26", PUBLISHED["circles_26_v2"], 26, 2.6359830849176076),
    ("circle_packing_32", PUBLISHED["circles_32_v2"], 32, 2.9395727712063233),
    ("circle_packing_rect", PUBLISHED["rect_21"], 21, 2.3658321712),
    ("circle_packing_rect", PUBLISHED["rect_21_v2"], 21, 2.36583237591),
    ("hexagon_packing_11", hexagons("hex_11"), None, 3.9300910662),
    ("hexagon_packing_12", hexagons("hex_12"), None, 3.9419115171),
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
    ("sums_differences", PUBLISHED["sums_2003"], 2003, 1.147988896509276),
    ("uncertainty", PUBLISHED["hermite_ae"], None, 0.35209910442),
    ("uncertainty", PUBLISHED["laguerre_12"], 12, 0.3215872333529),
]


@pytest.mark.parametrize(("name", "construction", "size", "value"), CASES, ids=[f"{c[0]}-{c[3]}" for c in CASES])
def test_a_published_construction_has_its_value(name, construction, size, value):
    task = TASKS[name]
    measured = task.measure(construction, size, True)
    assert isinstance(measured.value, Fraction)
    assert float(measured.value) == pytest.approx(value, rel=1e-10)
    assert not measured.repair or "1 " in measured.repair or "all radii" in measured.repair


def test_the_table_of_roots_is_that_of_its_constructions():
    instances = TASKS["uncertainty"].instances
    for count in (6, 8):
        bound = float(bound_of_roots(PUBLISHED["laguerre"][str(count)]))
        assert bound == pytest.approx(instances[count].value, rel=1e-9)


def test_what_was_known_before_has_its_value_too():
    """Gonçalves, Oliveira e Silva and Steinerberger: 0.3523 with rounded coefficients."""
    assert float(bound_of_hermite([-113 / 100, 1 / 25, 1 / 3240])) == pytest.approx(0.35229556, rel=1e-6)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_no_published_construction_is_taken_for_a_record(name):
    task = TASKS[name]
    for case, construction, size, _ in CASES:
        if case == name:
            value = task.measure(construction, size, True).value
            assert not task.beats(size if size in task.instances else task.headline, value, Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("hexagon_packing_11", "3.92446", "3.92444"),
        ("hexagon_packing_12", "3.941636", "3.941634"),
        ("autocorrelation_2", "0.962584", "0.962586"),
    ],
)
def test_a_record_beats_the_rounding_of_a_published_value(name, within, beyond):
    task = TASKS[name]
    assert not task.beats(task.headline, Fraction(within), Fraction(1, 10**9))
    assert task.beats(task.headline, Fraction(beyond), Fraction(1, 10**9))


def test_every_value_of_few_digits_has_its_decimals():
    """The others have more digits than a record has to beat, or are exact."""
    for task in TASKS.values():
        for best in task.instances.values():
            digits = len(repr(float(best.value)).replace(".", "").strip("0"))
            assert best.decimals is not None or digits > 8 or float(best.value).is_integer(), (task.name, best)
