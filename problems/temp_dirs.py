"""Temporary folders that do not outlive a killed process for long.

A lock holds a folder while its process lives. When a process makes its first folder, it removes folders without a lock:
their processes were killed before they could.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

PREFIX = "evo-held-"
_held: dict[str, int] = {}
"""The descriptors that hold the locks, by path."""


def make(kind: str, remove: Callable[[str], None] | None = None) -> str:
    """A new private folder, named after its `kind`, for `release` to remove. remove: removes what others left"""
    _sweep(tempfile.gettempdir(), remove or _remove)
    while True:
        folder = os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
        if (lock := _lock(folder)) is not None:
            _held[folder] = lock
            return folder


def release(folder: str, remove: Callable[[str], None] | None = None) -> None:
    """Remove it. Safe to call twice, and with a folder that was not made here."""
    (remove or _remove)(folder)
    if (lock := _held.pop(folder, None)) is not None:
        os.close(lock)


@functools.cache
def _sweep(place: str, remove: Callable[[str], None]) -> None:
    for folder in Path(place).glob(f"{PREFIX}*"):
        if (lock := _lock(str(folder))) is not None:
            with contextlib.suppress(OSError):  # another user's
                remove(str(folder))
            os.close(lock)


def _lock(folder: str) -> int | None:
    """A descriptor that holds it; None if another process holds it, has removed it meanwhile, or is about to."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if Path(folder).stat().st_ino == os.fstat(lock).st_ino:
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
