"""Processes that do our work elsewhere: what they import, and how those on another machine (evo.cluster) answer."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class WorkerFailed(RuntimeError):
    """A bug in a worker; the message has its traceback."""


@dataclass(frozen=True)
class WorkerAnswer:
    """A worker's answer: a value, a fault of a known kind, or a bug's traceback."""

    value: Any = None
    fault: Exception | None = None
    bug: str = ""

    def result(self) -> Any:
        """The value. Raises the fault, or WorkerFailed for a bug."""
        if self.bug:
            raise WorkerFailed(f"a worker failed:\n{self.bug}")
        if self.fault is not None:
            raise self.fault
        return self.value


def python_path() -> str:
    """PYTHONPATH for a process that imports what this one imports."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
