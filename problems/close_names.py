"""What a mistyped name was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from problems.user_path import user_path

LIKE = 0.6
"""How alike two names must be, from 0 to 1 (difflib)."""
MOST_ENTRIES = 2000
"""Entries of a folder that are looked at."""


def did_you_mean(name: str, known: Iterable[str], most: int = 3, like: float = LIKE) -> str:
    """`; did you mean X or Y?` for the end of a message, "" where nothing is close."""
    close = difflib.get_close_matches(name, list(known), n=most, cutoff=like)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def files_beside(path: str) -> list[str]:
    """Paths of what lies in the folder where `path` was looked for, written as `path` is; [] where there is no such
    folder or it cannot be read."""
    place = Path(path)
    try:
        names = sorted(entry.name for entry in islice(user_path(place).parent.iterdir(), MOST_ENTRIES))
    except (OSError, ValueError, RuntimeError):
        return []
    folder = path[: len(path.rstrip("/")) - len(place.name)]
    return [f"{folder}{name}" for name in names if not name.startswith(".")]
