"""Names for runs and comparisons that were given none."""

from __future__ import annotations

import secrets
import unicodedata

from islands.errors import BadName

_FIRST = "amber brisk calm clear coral deep early fair fleet gold green keen late lively mild quiet red swift tall warm"
_SECOND = "brook cedar cove dune elm fern field fjord grove heron isle lake marsh oak pine reef ridge river stone wave"
MOST_CHARACTERS = 80
MARKUP = frozenset("@<>&[]{}\"'`\\")
"""Characters that mean something else in a command, a page or a terminal's markup."""


def readable_name(attempt: int) -> str:
    """Two words, such as fair-elm; after five attempts with a number too, since the words may have run out."""
    words = f"{secrets.choice(_FIRST.split())}-{secrets.choice(_SECOND.split())}"
    return words if attempt < 5 else f"{words}-{secrets.randbelow(10**6)}"


def check_name(name: str, what: str = "name for a run") -> str:
    """The name of a run or comparison, or a tag, if it is valid. Raises BadName, one line with the rules.

    A name is written in commands, addresses, file names and pages: 1 to MOST_CHARACTERS characters, none of them a
    control or markup character or `@`, and no dash, space or slash at its beginning, no space or slash at its end.
    """
    wrong = ""
    if not name.strip():
        wrong = "is empty"
    elif len(name) > MOST_CHARACTERS:
        wrong = f"has {len(name)} characters, {MOST_CHARACTERS} at most"
    elif name[0] in "-/ " or name[-1] in "/ ":
        wrong = "begins with a dash, a slash or a space, or ends with one of the last two"
    else:
        bad = next(
            (sign for sign in name if sign in MARKUP or unicodedata.category(sign)[0] in "CZ" and sign != " "), None
        )
        if bad is not None:
            wrong = f"holds {bad!r}"
    if wrong:
        raise BadName(
            f"{name[:MOST_CHARACTERS]!r} is no {what}: it {wrong}; use letters, digits, dots, dashes and underscores"
        )
    return name
