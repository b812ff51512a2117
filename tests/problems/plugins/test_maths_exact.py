"""The exact arithmetic under `maths:`."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import eval_genlaguerre, roots_genlaguerre

from problems.plugins.maths import polynomials, sums_differences
from problems.plugins.maths.exact import convolve, float_below, quantise, to_integers
from problems.plugins.maths.polynomials import last_sign_change
from problems.plugins.maths.sums_differences import count_sums
from problems.plugins.maths.surd import Surd
from problems.plugins.maths.uncertainty import hermite_polynomials, quotient_of_roots

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


@PATIENT
@given(st.fractions(max_denominator=10**9), st.fractions(max_denominator=10**9))
def test_the_sign_of_a_surd(a, b):
    root = Fraction(math.isqrt(3 << 400), 1 << 200)
    value = a + b * root
    expected = 0 if a == b == 0 else (value > 0) - (value < 0)
    assert Surd(a, b).sign() == expected
    assert Surd(a, b).above() >= value - Fraction(1, 1 << 190) * abs(b)


def polynomial(*roots):
    found = [1]
    for root in roots:
        found = [(found[i - 1] if i else 0) - root * (found[i] if i < len(found) else 0) for i in range(len(found) + 1)]
    return found


@pytest.mark.parametrize(
    ("roots", "last"),
    [
        ((3,), 3), ((3, 7), 7), ((-1, 5), 5), ((2, 9, 9), 2), ((1, 4, 9, 9, 9), 9), ((8, 16), 16), ((5, 5), None),
        ((-3,), None), ((), None), ((0, 0, 6), 6),
    ],
)  # fmt: skip
def test_the_last_change_of_sign_of_a_polynomial_with_known_roots(roots, last):
    """A double root is none, but bisection cannot tell: it may count, which is the worse reading."""
    found = last_sign_change(polynomial(*roots))
    doubles = {root for root in roots if root > 0 and roots.count(root) % 2 == 0}
    if doubles:  # the worse reading: never below the truth
        assert found is not None and any(
            abs(found - place) < Fraction(1, 1 << 90) for place in {*doubles, last} - {None}
        )
        assert last is None or found >= last
    elif last is None:
        assert found is None
    else:
        assert last <= found <= last + Fraction(1, 1 << 90)


def test_a_polynomial_that_takes_too_long_is_read_for_the_worse(monkeypatch):
    monkeypatch.setattr(polynomials, "_STEPS", 5)
    assert last_sign_change(polynomial(3, 7)) >= 7


def test_complex_roots_far_out_are_no_change_of_sign():
    # (x - 1)((x - 100)**2 + 1)
    assert last_sign_change([-10001, 10001 + 200, -201, 1]) == pytest.approx(1)


def test_hermite_polynomials_are_those_of_numpy():
    for k, found in enumerate(hermite_polynomials(4)):
        expected = np.polynomial.hermite.herm2poly([0] * (4 * k) + [1])
        assert [float(c) for c in found] == expected[::2].tolist() and not expected[1::2].any()


def test_the_polynomial_of_double_roots_has_no_odd_laguerre_part():
    roots = [4.5, 6.25, 37.0]
    quotient = quotient_of_roots(roots)
    places, weights = roots_genlaguerre(40, -0.5)

    def value(z):
        q = sum(float(c) / float(quotient[-1]) * z**i for i, c in enumerate(quotient))
        return z * math.prod((z - root) ** 2 for root in roots) * q

    values = np.array([value(z) for z in places])
    for degree in range(0, 15):
        part = float(np.sum(weights * values * eval_genlaguerre(degree, -0.5, places)))
        size = float(np.sum(weights * np.abs(values * eval_genlaguerre(degree, -0.5, places))))
        assert (abs(part) < 1e-9 * size) == (degree % 2 == 1), degree


@PATIENT
@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.lists(st.integers(0, 400), min_size=1, max_size=30))
def test_sums_are_counted_as_a_set_counts_them(first, second):
    first, second = sorted(set(first)), sorted(set(second))
    assert count_sums(first, second) == len({a + b for a in first for b in second})


def test_sums_of_large_sets_are_counted_in_stretches(monkeypatch):
    monkeypatch.setattr(sums_differences, "_AT_ONCE", 100)
    monkeypatch.setattr(sums_differences, "_CHUNK", 1 << 10)
    rng = np.random.default_rng(3)
    first, second = (sorted(set(rng.integers(0, 60_000, size).tolist())) for size in (300, 200))
    assert count_sums(first, second) == len({a + b for a in first for b in second})
