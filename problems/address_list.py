"""`list:FILE`: a file of addresses, one a line; lines that begin with # are remarks. `evo problems pick` writes one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from problems.contract import BadAddress
from problems.user_path import user_path

_LONGEST = 4096
"""Characters of an address. A file of another kind may be one line of megabytes, which no message should repeat."""
_READ_AT_ONCE = ("programs:", "livecodebench:")
"""Kinds whose address takes several problems of one file, /3,12,47: a large file is read once then."""


def addresses_in(place: str) -> Iterator[str]:
    """The addresses, in order; neighbours of one file as one. Raises BadAddress where they cannot be read."""
    path = user_path(place)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read list:{place}: {error}") from None
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise BadAddress(f"list:{place} holds no addresses")
    for line in found:
        if len(line) > _LONGEST:
            raise BadAddress(f"list:{place}: {line[:40]!r}... is {len(line):,} characters long, no address")
        if line.startswith("list:"):
            raise BadAddress(f"list:{place}: {line} is a list itself; name what it lists")
    yield from grouped(found)


def grouped(addresses: Iterable[str]) -> Iterator[str]:
    """The addresses, in order, neighbours of one file as one."""
    for _, group in groupby(addresses, key=_stem):
        one, *others = dict.fromkeys(group)
        yield ",".join([one, *(other.rpartition("/")[2] for other in others)]) if others else one


def _stem(line: str) -> str:
    """What neighbours that are read at once have in common; every other line is its own."""
    stem, slash, last = line.rpartition("/")
    several = slash and line.startswith(_READ_AT_ONCE) and not set(last) & set("-?,.")
    several = several and not user_path(line.partition(":")[2]).exists()
    return stem if several else line
