"""Scratch folders on a real disk, for workers that have no mount namespace: made, watched and removed by the parent."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile

from problems import temp_dirs


def make(owner: int | None, within: str | None = None) -> str:
    """A new private folder, given to `owner` (a user id) where that is another user."""
    if within is None:
        folder = temp_dirs.make("sandbox", _remove_all)
    else:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="evo-sandbox-", dir=within))
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
    if os.path.lexists(folder):
        _remove_deep(folder)


def _remove_deep(folder: str) -> None:
    """What rmtree leaves: folders too deep for it, or closed by their mode. One descriptor at a time, down and up."""
    down = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    here = os.open(folder, down)
    way: list[str] = []
    try:
        while True:
            inner = _empty(here)
            if inner is not None:
                os.chmod(inner, 0o700, dir_fd=here)
                here, left = os.open(inner, down, dir_fd=here), here
                way.append(inner)
            elif way:
                here, left = os.open("..", down, dir_fd=here), here
                os.rmdir(way.pop(), dir_fd=here)
            else:
                break
            os.close(left)
    finally:
        os.close(here)
    os.rmdir(folder)


def _empty(here: int) -> str | None:
    """Remove the files and empty folders of the folder `here`; one that is not empty, if there is any."""
    full = None
    for name in os.listdir(here):
        if not stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=here)
            continue
        try:
            os.rmdir(name, dir_fd=here)
        except OSError:
            full = name
    return full
