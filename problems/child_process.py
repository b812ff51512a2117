"""Processes that do our work elsewhere: what they import, and how those on another machine (evo.cluster) answer."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
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


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep NumPy, if this block imports it, from starting threads for its linear algebra. It would start one per core,
    and each would spin for a while. Processes that are started later see the user's variable."""
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]
