"""Names of runs and comparisons, and database addresses as text. Imports no database library."""

from __future__ import annotations

import re
import secrets
import shlex
import unicodedata

from islands.errors import BadName
from problems.redaction import redact

DEFAULT_DB = "sqlite:///evo.db"
_FIRST = "amber brisk calm clear coral deep early fair fleet gold green keen late lively mild quiet red swift tall warm"
_SECOND = "brook cedar cove dune elm fern field fjord grove heron isle lake marsh oak pine reef ridge river stone wave"
_MOST_CHARACTERS = 80
MARKUP = frozenset("@<>&[]{}\"'`\\")
"""Characters that mean something else in a command, a page or a terminal's markup."""
_LOGIN = re.compile(r"(://[^:/@\s]*):[^@]*(?:@[^@/]*)*@")
_WHOLE = re.compile(r"((?:-[\w-]+=)?(?:postgres|mysql|maria)\w*(?:\+\w+)?://[^:/@\s]*):.*@([^@]*)", re.DOTALL)
_QUERY = re.compile(r"([?&])(?:ssl)?password=[^&]*&?", re.IGNORECASE)


def readable_name(attempt: int) -> str:
    """Two words, such as fair-elm; after five attempts with a number too, since the words may have run out."""
    words = f"{secrets.choice(_FIRST.split())}-{secrets.choice(_SECOND.split())}"
    return words if attempt < 5 else f"{words}-{secrets.randbelow(10**6)}"


def check_name(name: str) -> str:
    """The name of a run or comparison, if it is valid. Raises BadName, one line with the rules.

    A name is written in commands, addresses, file names and pages: 1 to _MOST_CHARACTERS characters, none of them a
    control or markup character or `@`, and no dash, space or slash at its beginning, no space or slash at its end.
    """
    wrong = ""
    if not name.strip():
        wrong = "is empty"
    elif len(name) > _MOST_CHARACTERS:
        wrong = f"has {len(name)} characters, {_MOST_CHARACTERS} at most"
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
            f"{name[:_MOST_CHARACTERS]!r} is no name for a run: it {wrong}; use letters, digits, dots, dashes and "
            "underscores"
        )
    return name


def hide_in_argument(text: str) -> str:
    """Like redact, for one whole argument: here a password may have spaces."""
    matched = _WHOLE.fullmatch(text)
    return redact(text if matched is None else f"{matched[1]}:***@{matched[2]}")


def format_db_option(address: str) -> str:
    """` --db ADDRESS` for a suggested command, without a password; nothing for the default database."""
    return "" if address == DEFAULT_DB else f" --db {shlex.quote(redact(address))}"


def drop_password(address: str) -> str:
    """A database address without its password, which a resume takes from PGPASSWORD, from the password file, or from
    an address given again."""
    return _QUERY.sub(r"\1", _LOGIN.sub(r"\1@", address)).rstrip("?&")
