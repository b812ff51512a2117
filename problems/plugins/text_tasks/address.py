"""Addresses of the text tasks, after their kind and colon: `PLACE`, `PLACE?NAME=NUMBER&...`, `PLACE?.../INDEX`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from problems.address_options import parse_options
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
    options = parse_options(f"{kind}:{rest}", found["options"] or "", dict.fromkeys(known, _whole_number))
    return TextAddress(found["place"], options, None if found["index"] is None else int(found["index"]))


def _whole_number(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ValueError("must be a whole number from 0")
    return int(value)
