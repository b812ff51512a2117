"""Scratch folders on a real disk, for workers that have no mount namespace: made, watched and removed by the parent."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile


def make(owner: int | None, within: str | None = None) -> str:
    """A new private folder, given to `owner` (a user id) where that is another user."""
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
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    # Too deep for rmtree, or closed by mode: flatten it, so that every step works one level below the top.
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        serial = 0
        while names := os.listdir(top):
            for name in names:
                if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
                    os.unlink(name, dir_fd=top)
                    continue
                os.chmod(name, 0o700, dir_fd=top)
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
                try:
                    for entry in os.listdir(inner):
                        if stat.S_ISDIR(os.stat(entry, dir_fd=inner, follow_symlinks=False).st_mode):
                            serial += 1
                            os.chmod(entry, 0o700, dir_fd=inner)
                            os.rename(entry, f"{serial}-{os.getpid()}-flat", src_dir_fd=inner, dst_dir_fd=top)
                        else:
                            os.unlink(entry, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder)
