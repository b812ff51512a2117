"""Processes that do our work elsewhere: what they import, and how those on another machine (evo.cluster) answer."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


class WorkerFailed(RuntimeError):
    """A bug in a worker; the message has its traceback."""


@dataclass(frozen=True)
class WorkerAnswer:
    """How a worker's work ended: well, by a fault of a known kind, or by a bug, with its traceback."""

    fault: Exception | None = None
    bug: str = ""

    def check(self) -> None:
        """Raises the fault, or WorkerFailed for a bug."""
        if self.bug:
            raise WorkerFailed(f"a worker failed:\n{self.bug}")
        if self.fault is not None:
            raise self.fault


def python_path() -> str:
    """PYTHONPATH for a process that imports what this one imports."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
