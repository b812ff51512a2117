"""Scratch folders on a real disk, for workers that have no mount namespace: made, watched and removed by the parent."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import uuid

from problems import temp_dirs


def make(owner: int | None, within: str | None = None) -> str:
    """A new private folder, given to `owner` (a user id) where that is another user."""
    folder = tempfile.mkdtemp(dir=within) if within else temp_dirs.make("sandbox", _remove_all)
    if owner is not None:
        os.chown(folder, owner, owner)
    return folder


def size(folder: str, enough: int) -> int:
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


def remove(folder: str) -> None:
    """Remove a folder of ours, once the processes that could write to it are dead; never follows a link out of it."""
    temp_dirs.release(folder, _remove_all)


def _remove_all(folder: str) -> None:
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
