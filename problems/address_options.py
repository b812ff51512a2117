"""`NAME=VALUE&...`, the options of an address after its question mark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from problems.contract import BadAddress

Value = TypeVar("Value")


def parse_options(address: str, text: str, known: Mapping[str, Callable[[str], Value]]) -> dict[str, Value]:
    """The options by name. Raises BadAddress for one that is not `known`, and with what a reader of a value says, which
    is a ValueError that ends a sentence: "must be a date, ..."."""
    options: dict[str, Value] = {}
    for part in filter(None, text.split("&")):
        name, _, value = part.partition("=")
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise BadAddress(f"{address}: unknown option {name}; {there}")
        try:
            options[name] = known[name](value)
        except ValueError as error:
            raise BadAddress(f"{address}: {name} {error}, not {value!r}") from None
    return options
