"""The driver's paths, as a process on another node takes them on: what relative names are of, what is imported."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence


def import_path() -> list[str]:
    """Where this process imports from, without the entry that stands for its working directory."""
    return [entry for entry in sys.path if entry]


def take_on(folder: str, path: Sequence[str]) -> None:
    """Work in the driver's folder, where this machine has it, and import from its path before all else."""
    with contextlib.suppress(OSError):  # another machine need not have it
        os.chdir(folder)
    sys.path[:0] = [entry for entry in path if entry not in sys.path]
