"""Database addresses as text: the default, and forms that can be printed and kept. Imports no database library."""

from __future__ import annotations

import re

DEFAULT_DB = "sqlite:///evo.db"

_LOGIN = re.compile(r"(://[^:/@\s]*):[^@\s]*@")


def hide_password(text: str) -> str:
    """A database address, or a command line that holds one, with *** for the password: to be printed and stored."""
    return _LOGIN.sub(r"\1:***@", text)


def drop_password(address: str) -> str:
    """A database address without its password, which a resume takes from PGPASSWORD, from the password file, or from
    an address given anew."""
    return _LOGIN.sub(r"\1@", address)
