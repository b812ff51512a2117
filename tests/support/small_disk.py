"""A file system of a test's own, to be full or read-only."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """Mounted by a call with its size, as in "4m"; the folder is what it gives back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, size: str) -> Path:
        self.folder.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(self.folder)])
        if mounted.returncode:
            pytest.skip("no file system can be mounted here")
        return self.folder

    def read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", "none", str(self.folder)], check=True)

    def grow(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", "none", str(self.folder)], check=True)


def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Taken away at the end."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    made = SmallDisk(folder)
    yield made
    if folder.is_mount():
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # what failed may still hold a file open
