"""The exact arithmetic under `maths:`."""

import math
from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evo.plugins.maths.exact import convolve, float_below, quantise, to_integers

WHOLE = st.integers(-(1 << 70), 1 << 70)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@PATIENT
@given(st.lists(WHOLE, min_size=1, max_size=8), st.lists(WHOLE, min_size=1, max_size=8))
def test_a_convolution_through_one_product_is_that_of_the_definition(first, second):
    expected = [0] * (len(first) + len(second) - 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            expected[i + j] += a * b
    assert convolve(first, second) == expected


@PATIENT
@given(st.lists(FLOATS, min_size=1, max_size=6))
def test_floats_are_integers_over_one_power_of_two(values):
    whole, unit = to_integers(values)
    assert [Fraction(item, unit) for item in whole] == [Fraction(value) for value in values]


@PATIENT
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6))
def test_quantised_values_keep_their_proportions(values):
    whole = quantise(values)
    largest = max(map(abs, values))
    assert max(map(abs, whole)).bit_length() <= 65
    if largest > 0:
        scale = Fraction(max(map(abs, whole))) / Fraction(largest)
        assert all(abs(item - Fraction(value) * scale) <= 2 for item, value in zip(whole, values, strict=True))


@PATIENT
@given(st.fractions())
def test_a_float_below_is_not_above(value):
    assert Fraction(float_below(value)) <= value
    assert Fraction(math.nextafter(float_below(value), math.inf)) >= value
