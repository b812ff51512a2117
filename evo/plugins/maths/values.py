"""Reads the values that a candidate returned: plain numbers of bounded size, whatever their type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from evo.plugins.maths.task import Unfit

MOST_NUMBERS = 100_000
_MOST_BITS = 512


def read_number(value: Any) -> float:
    """A finite float. Complex numbers, text, NaN and integers beyond the floats are Unfit."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # an array of one element
    if isinstance(value, complex):
        raise Unfit("a complex number, where a real one belongs")
    if isinstance(value, Decimal) and not value.is_finite():
        raise Unfit(f"{value}, where a finite number belongs")
    if not isinstance(value, (int, float, Fraction, Decimal)):
        raise Unfit(f"{_told(value)}, where a number belongs")
    try:
        number = float(value)
    except OverflowError:
        raise Unfit("a number too large for a float") from None
    if not math.isfinite(number):
        raise Unfit(f"{number}, where a finite number belongs")
    return number


def read_integer(value: Any) -> int:
    """An integer, a float rounded to the nearest; Unfit beyond 512 bits."""
    number = value if isinstance(value, int) else round(read_number(value))
    if number.bit_length() > _MOST_BITS:
        raise Unfit(f"an integer of {number.bit_length()} bits; at most {_MOST_BITS} are read")
    return int(number)


def read_items(value: Any, what: str, most: int = MOST_NUMBERS) -> Sequence[Any]:
    """The items of a list, tuple, array or set. `what` they are, for the message."""
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if not isinstance(value, (list, tuple)):
        raise Unfit(f"{_told(value)}, where a list of {what} belongs")
    if len(value) > most:
        raise Unfit(f"{len(value)} {what}; at most {most} are read")
    return value


def read_numbers(value: Any, what: str, count: int | None = None, most: int = MOST_NUMBERS) -> list[float]:
    """A flat list of floats, `count` of them if that is given."""
    items = read_items(value, what, most)
    if count is not None and len(items) != count:
        raise Unfit(f"{len(items)} {what}, where {count} belong")
    return [read_number(item) for item in items]


def read_rows(value: Any, what: str, count: int | None, width: int, most: int = MOST_NUMBERS) -> list[list[float]]:
    """`count` rows of `width` floats."""
    rows = read_items(value, what, most)
    if count is not None and len(rows) != count:
        raise Unfit(f"{len(rows)} {what}, where {count} belong")
    return [read_numbers(row, f"numbers of one of the {what}", width) for row in rows]


def without_claims(value: Any) -> Any:
    """Only the construction of a tuple like (construction, claimed value, size): claims are never read."""
    lists = (list, tuple, set, frozenset)
    if isinstance(value, (tuple, list)) and len(value) > 1 and isinstance(value[0], lists):
        alone = not any(isinstance(item, lists) for item in value[1:])
        return value[0] if alone else value
    return value


def _told(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
