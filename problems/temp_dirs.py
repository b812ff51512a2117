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
import stat
import tempfile
import uuid
from pathlib import Path

PREFIX = "evo-held-"
_held: dict[str, int] = {}
"""The descriptors that hold the locks, by path."""


def make(kind: str) -> str:
    """A new private folder, named after its `kind`, for `release` to remove."""
    _sweep(tempfile.gettempdir())
    while True:
        folder = os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
        if (lock := _lock(folder)) is not None:
            _held[folder] = lock
            return folder


def release(folder: str) -> None:
    """Remove it; never follows a link out of it. Safe to call twice, and with a folder that was not made here, once no
    process is left that could write to it."""
    _remove(folder)
    if (lock := _held.pop(folder, None)) is not None:
        os.close(lock)


def disk_size(folder: str, enough: int) -> int:
    """Bytes that the files below take on the disk, at least a page each; stops counting beyond `enough`."""
    total = 0
    pending = [folder]
    while pending and total <= enough:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        found = entry.stat(follow_symlinks=False)
                        total += max(found.st_blocks * 512, 4096)
                        if stat.S_ISDIR(found.st_mode):
                            pending.append(entry.path)
        except OSError:
            continue  # gone meanwhile, or a path too long to name, whose parents have been counted
    return total


@functools.cache
def _sweep(place: str) -> None:
    for folder in Path(place).glob(f"{PREFIX}*"):
        if (lock := _lock(str(folder))) is not None:
            with contextlib.suppress(OSError):  # another user's
                _remove(str(folder))
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
    with contextlib.suppress(OSError):  # most hold a few files at most, for which rmtree takes several times as long
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for name in os.listdir(descriptor):
                os.unlink(name, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(folder)
        return
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    # what is left is too deep for rmtree, or closed by its mode: it is brought up level by level
    while os.path.lexists(folder):
        os.chmod(folder, 0o700)
        if not (names := os.listdir(folder)):
            os.rmdir(folder)
        for path in (f"{folder}/{name}" for name in names):
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                os.unlink(path)
                continue
            os.chmod(path, 0o700)
            for inner in (f"{path}/{name}" for name in os.listdir(path)):
                if stat.S_ISDIR(os.lstat(inner).st_mode):
                    os.chmod(inner, 0o700)  # a folder that changes its parent must be writable
                os.rename(inner, f"{folder}/{uuid.uuid4().hex}")
            os.rmdir(path)
