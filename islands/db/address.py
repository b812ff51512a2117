"""Database addresses as text: the default, and forms that can be printed and kept. Imports no database library."""

from __future__ import annotations

import re

from problems.redaction import redact

DEFAULT_DB = "sqlite:///evo.db"

_LOGIN = re.compile(r"(://[^:/@\s]*):[^@]*(?:@[^@/]*)*@")
_WHOLE = re.compile(r"((?:-[\w-]+=)?(?:postgres|mysql|maria)\w*(?:\+\w+)?://[^:/@\s]*):.*@([^@]*)", re.DOTALL)
_QUERY = re.compile(r"([?&])(?:ssl)?password=[^&]*&?", re.IGNORECASE)


def hide_password(text: str) -> str:
    """A database address, or a command line that holds one, with *** for the password: to be printed and stored."""
    return redact(text)


def hide_in_argument(text: str) -> str:
    """Like hide_password, for one whole argument: here a password may have spaces."""
    matched = _WHOLE.fullmatch(text)
    return hide_password(text if matched is None else f"{matched[1]}:***@{matched[2]}")


def format_db_option(address: str) -> str:
    """` --db ADDRESS` for a suggested command, without a password; nothing for the default database."""
    return "" if address == DEFAULT_DB else f" --db {hide_password(address)}"


def drop_password(address: str) -> str:
    """A database address without its password, which a resume takes from PGPASSWORD, from the password file, or from
    an address given again."""
    return _QUERY.sub(r"\1", _LOGIN.sub(r"\1@", address)).rstrip("?&")
