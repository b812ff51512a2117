"""Whether what came back is what was expected. Runs in the parent, on plain values that hostile code produced."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from problems.programs.cases import CallCase
from problems.sandbox.child.wire import Array


def call_passes(case: CallCase, value: Any) -> bool:
    """Python's own `==`, `is` or truth, so 1 == True == 1.0 and a tuple is no list."""
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
    """`value == expected`; a value too deep to compare is not equal."""
    try:
        return bool(value == expected)
    except RecursionError:
        return False


def same_json(value: Any, expected: Any) -> bool:
    """As `equal`, where an outermost tuple counts as a list, as in LiveCodeBench's harness: JSON has no tuples. A tuple
    further inside is no list there either."""
    return equal(list(value) if isinstance(value, tuple) else value, expected)


def same_output(printed: str, expected: str) -> bool:
    """As LiveCodeBench's harness: line by line, without white space at both ends of all and of each line; lines that
    differ as text are equal if all their tokens are decimal numbers, exactly equal."""
    got, want = _lines(printed), _lines(expected)
    return len(got) == len(want) and all(a == b or _same_numbers(a, b) for a, b in zip(got, want, strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(got: str, want: str) -> bool:
    try:
        return list(map(Decimal, got.split())) == list(map(Decimal, want.split()))
    except InvalidOperation:  # a word, or a comparison with a signalling nan
        return False
