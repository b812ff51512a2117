"""Addresses of the text tasks, after their kind and colon: `PLACE`, `PLACE?NAME=NUMBER&...`, `PLACE?.../INDEX`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from problems.contract import BadAddress

_ADDRESS = re.compile(r"(?P<place>[^?]+?)(?:\?(?P<options>[^?/]*))?(?:/(?P<index>[0-9]{1,9}))?")


@dataclass(frozen=True)
class TextAddress:
    """place: a file, `hf` or `synthetic` with what follows it; index: None for the whole set"""

    place: str
    options: Mapping[str, int] = field(default_factory=dict)
    index: int | None = None


def parse_text_address(kind: str, rest: str, known: Collection[str]) -> TextAddress:
    """known: the options that this kind has. Raises BadAddress for any other, and for values that are no numbers."""
    found = _ADDRESS.fullmatch(rest)
    if found is None:
        raise BadAddress(f"{kind}:{rest} names nothing; see `evo problems` for the sets, or name a file")
    options: dict[str, int] = {}
    for part in filter(None, (found["options"] or "").split("&")):
        name, _, value = part.partition("=")
        if name not in known:
            there = f"it has {', '.join(known)}" if known else "it has none"
            raise BadAddress(f"{kind}:{rest}: unknown option {name}; {there}")
        if not (value.isascii() and value.isdecimal() and len(value) < 10):
            raise BadAddress(f"{kind}:{rest}: {name} must be a whole number from 0, not {value!r}")
        options[name] = int(value)
    return TextAddress(found["place"], options, None if found["index"] is None else int(found["index"]))
