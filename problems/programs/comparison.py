"""Whether what came back is what was expected. Runs in the parent, on plain values that hostile code produced."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Any

from problems.programs.cases import CallCase
from problems.sandbox.child.wire import Array

TOLERANCE = 1e-6
"""Relative and absolute, for printed numbers that the expected output writes with a decimal point or exponent."""

_LONGEST_NUMBER = 400  # characters; a longer token is text, never parsed


def call_passes(case: CallCase, value: Any) -> bool:
    """Python's own `==`, `is` or truth, so 1 == True == 1.0 and a tuple is no list; nan equals nan."""
    if isinstance(value, Array) and case.relation in ("true", "false"):
        if not value.only():
            return False  # numpy raises: an array of several elements has no truth
        (value,) = value.only()
    if case.relation == "true":
        return bool(value)
    if case.relation == "false":
        return not value
    if case.relation == "is":
        return value is case.expected  # expected is None, True or False: singletons in this process
    if case.relation == "json":
        return same_json(value, case.expected)
    return equal(value, case.expected)


def equal(value: Any, expected: Any) -> bool:
    """`value == expected`, and nan equal to nan at any depth; a value too deep to compare is not equal."""
    try:
        if value == expected:
            return True
        return _equal_with_nan(value, expected)
    except RecursionError:
        return False


def _equal_with_nan(value: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(value, float) and math.isnan(value)
    if isinstance(expected, list | tuple) and type(value) is type(expected) and len(value) == len(expected):
        return all(v == e or _equal_with_nan(v, e) for v, e in zip(value, expected, strict=True))
    if isinstance(expected, dict) and isinstance(value, dict) and value.keys() == expected.keys():
        return all(value[k] == e or _equal_with_nan(value[k], e) for k, e in expected.items())
    return False


def same_json(value: Any, expected: Any) -> bool:
    """As `equal`, where an outermost tuple counts as a list, as in LiveCodeBench's harness: JSON has no tuples. A tuple
    further inside is no list there either."""
    return equal(list(value) if isinstance(value, tuple) else value, expected)


def same_output(printed: str, expected: str) -> bool:
    """Line by line and token by token, surrounding white space ignored; numbers by value."""
    got, want = _lines(printed), _lines(expected)
    return len(got) == len(want) and all(_same_line(a, b) for a, b in zip(got, want, strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _same_line(got: str, want: str) -> bool:
    if got == want:
        return True
    got_tokens, want_tokens = got.split(), want.split()
    return len(got_tokens) == len(want_tokens) and all(map(_same_token, got_tokens, want_tokens))


def _same_token(got: str, want: str) -> bool:
    if got == want:
        return True
    a, b = _number(got), _number(want)
    if a is None or b is None:
        return False
    if a == b:
        return True
    if not any(mark in want for mark in ".eE"):
        return False  # the expected number is an integer: 3.0000001 is not 3
    x, y = float(a), float(b)
    return math.isfinite(x) and abs(x - y) <= TOLERANCE * max(1.0, abs(y))


def _number(token: str) -> Decimal | None:
    if len(token) > _LONGEST_NUMBER or "_" in token:
        return None  # an underscore is Python's notation alone
    try:
        number = Decimal(token)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
