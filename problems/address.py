"""Parses users' addresses, in one place: problems, policies, clusters, files and lists of them.

    KIND:PLACE?NAME=VALUE&.../INDEX      KIND:PLACE/FIRST-LAST

Whether an address names anything shows when it is looked up. An error is a BadAddress of one line, with a close name if
there is one.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from problems.contract import BadAddress

LIKE = 0.6
"""How alike two names must be, from 0 to 1 (difflib)."""
_MOST_ENTRIES = 2000
"""Entries of a folder that are looked at."""
_LONGEST = 4096
"""Characters of an address. A file of another kind may be one line of megabytes, which no message should repeat."""
_READ_AT_ONCE = ("programs:", "livecodebench:")
"""Kinds whose address takes several problems of one file, /3,12,47: a large file is read once then."""
_RANGE = re.compile(r"(.+)/([0-9]+)-([0-9]+)", re.DOTALL)
_ABSOLUTE = re.compile(r"([\w-]+:)?/(.+)", re.DOTALL)
_FILE = re.compile(r"[^.].*\.[A-Za-z]\w*(\?.*)?", re.DOTALL)
NUMBER, NAMES = "[0-9]{1,9}", "[^?/]+"
"""Forms of an index: a number; one or several names."""


# -- names for people --------------------------------------------------------------------------------------------------


def shorten_names(addresses: Sequence[str]) -> list[str]:
    """Names to show for the addresses of a run's problems: a file or directory is called by its base name, as in
    `programs:tasks.jsonl/3` and `scorer.py`. Those that would have the same name keep their paths."""
    names = list(addresses)
    for place, matched in enumerate(map(_ABSOLUTE.match, addresses)):
        if matched is not None:
            kind, parts = matched[1] or "", matched[2].split("/")
            of_files = (i for i, part in enumerate(parts) if kind and _FILE.fullmatch(part))
            names[place] = kind + "/".join(parts[next(of_files, len(parts) - 1) :])
    counts = Counter(names)
    return [name if counts[name] == 1 else address for name, address in zip(names, addresses, strict=True)]


def name_few(names: Sequence[str], most: int, *, separator: str = ", ", kind: str = "") -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`. kind: of the names, as in ` versions`"""
    more = f" and {len(names) - most} more{kind}" if len(names) > most else ""
    return separator.join(names[:most]) + more


# -- parts of an address -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The text after a kind and its colon. index: "" for the whole set."""

    path: str
    options: Mapping[str, Any]
    index: str


def parse_place(kind: str, rest: str, known: Mapping[str, Callable[[str], Any]], index: str = NUMBER) -> Place:
    """`PLACE`, `PLACE/INDEX`, `PLACE?OPTIONS` or `PLACE?OPTIONS/INDEX`.

    known: the options of this kind with their readers, as for `read_options`; index: a pattern of an INDEX
    Raises BadAddress.
    """
    matched = re.fullmatch(rf"([^?]+?)(?:\?([^?/]*))?(?:/({index}))?", rest)
    if matched is None:
        raise BadAddress(f"{kind}:{rest} names nothing; see `evo problems` for the sets, or name a file")
    parts = (part.partition("=") for part in (matched[2] or "").split("&") if part)
    options = read_options(f"{kind}:{rest}", ((name, value) for name, _, value in parts), known)
    return Place(matched[1], options, matched[3] or "")


def split_options(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """An address without its options, and every (option, value) as written, percent escapes undone."""
    place, _, query = text.partition("?")
    return place, tuple(parse_qsl(query, keep_blank_values=True))


def split_range(rest: str) -> tuple[str, int, int] | None:
    """`PLACE/FIRST-LAST`, both ends included; None for another form."""
    matched = _RANGE.fullmatch(rest)
    return (matched[1], int(matched[2]), int(matched[3])) if matched else None


def read_options(
    address: str, options: Iterable[tuple[str, str]], known: Mapping[str, Callable[[str], Any]]
) -> dict[str, Any]:
    """The options by name. Raises BadAddress for one that is not `known`, and for a value whose reader raises
    ValueError with the end of a sentence: "must be a date"."""
    values: dict[str, Any] = {}
    for name, value in options:
        if name not in known:
            raise unknown_option(address, name, known)
        try:
            values[name] = known[name](value)
        except ValueError as error:
            raise BadAddress(f"{address}: {name} {error}, not {value!r}") from None
    return values


def whole_number(value: str) -> int:
    """Reads an option that is a whole number from 0."""
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise ValueError("must be a whole number from 0")
    return int(value)


def unknown_option(address: str, name: str, known: Iterable[str]) -> BadAddress:
    """The error of an option that an address of this kind does not have."""
    names = list(known)
    there = f"; there are {', '.join(names)}" if names else "; there are none"
    return BadAddress(f"{address}: unknown option {name}{did_you_mean(name, names, most=1) or there}")


# -- names and paths ---------------------------------------------------------------------------------------------------


def did_you_mean(name: str, known: Iterable[str], most: int = 3, like: float = LIKE) -> str:
    """`; did you mean X or Y?` for the end of a message; "" if nothing is close."""
    close = difflib.get_close_matches(name, list(known), n=most, cutoff=like)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def user_path(name: str | Path) -> Path:
    """The path, with a home folder instead of `~` or `~user`. It stays as it is if no user has that name, for which
    Path.expanduser raises RuntimeError: another kind of address may begin so."""
    return Path(os.path.expanduser(name))  # noqa: PTH111


def files_beside(path: str) -> list[str]:
    """Paths of the files in the folder of `path`, written as `path` is; [] if the folder cannot be read."""
    place = Path(path)
    try:
        names = sorted(entry.name for entry in islice(user_path(place).parent.iterdir(), _MOST_ENTRIES))
    except (OSError, ValueError, RuntimeError):
        return []
    folder = path[: len(path.rstrip("/")) - len(place.name)]
    return [f"{folder}{name}" for name in names if not name.startswith(".")]


# -- lists of addresses ------------------------------------------------------------------------------------------------


def addresses_in(place: str) -> Iterator[str]:
    """The addresses in a file, one a line, in order; lines that begin with # are remarks. `FILE?METRIC=MOST` names the
    problems of a file of `evo evaluate -o` whose metric is at most MOST, as in `?solve@30=0`. Neighbours of one file of
    problems become one address. Raises BadAddress if they cannot be read."""
    place, options = split_options(place)
    if options:
        yield from grouped(_filter_evaluation(place, options))
        return
    path = user_path(place)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"cannot read list:{place}: {error}") from None
    addresses = [line for line in lines if line and not line.startswith("#")]
    if not addresses:
        raise BadAddress(f"list:{place} holds no addresses")
    for line in addresses:
        if len(line) > _LONGEST:
            raise BadAddress(f"list:{place}: {line[:40]!r}... is {len(line):,} characters long, no address")
        if line.startswith("list:"):
            raise BadAddress(f"list:{place}: {line} is a list itself; name what it lists")
    yield from grouped(addresses)


def _filter_evaluation(place: str, filters: Iterable[tuple[str, str]]) -> list[str]:
    """The problems of an evaluation that pass every filter (metric, its largest value)."""
    address = f"list:{place}"
    try:
        rows = json.loads(user_path(place).read_text(encoding="utf-8"))["per_problem"]
        names = [str(row["problem"]) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadAddress(f"{address}: no file of evo evaluate -o ({type(error).__name__})") from None
    kept = dict.fromkeys(names)
    for metric, most in filters:
        values = {name: row.get(metric) for name, row in zip(names, rows, strict=True)}
        if not any(isinstance(value, int | float) for value in values.values()):
            known = ", ".join(key for key in (rows[0] if rows else {}) if "@" in key)
            raise BadAddress(f"{address} has no {metric}; it has {known or 'no problems'}")
        try:
            limit = float(most)
        except ValueError:
            raise BadAddress(f"{address}?{metric}={most}: must be a number") from None
        kept = {name: None for name in kept if isinstance(values[name], int | float) and values[name] <= limit}
    if not kept:
        raise BadAddress(f"{address}: none of its {len(names)} problems passes the filter")
    return list(kept)


def grouped(addresses: Iterable[str]) -> Iterator[str]:
    """The addresses, in order, neighbours of one file as one."""
    group, stem = list[str](), ""
    for line in chain(addresses, ["\n"]):  # no address: it ends the last group
        common, slash, last = line.rpartition("/")
        several = slash and line.startswith(_READ_AT_ONCE) and not set(last) & set("-?,.")
        shared = common if several and not user_path(line.partition(":")[2]).exists() else line
        if group and shared != stem:
            first, *others = dict.fromkeys(group)
            yield ",".join([first, *(other.rpartition("/")[2] for other in others)]) if others else first
            group = []
        group.append(line)
        stem = shared
