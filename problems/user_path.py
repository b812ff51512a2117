"""Paths as users write them."""

from __future__ import annotations

import os
from pathlib import Path


def user_path(name: str | Path) -> Path:
    """The path, a home folder in the place of `~` or `~user`; as it is where nobody has that name, which
    Path.expanduser raises RuntimeError for: it may be another kind of address that begins so, and is no file."""
    return Path(os.path.expanduser(name))  # noqa: PTH111
