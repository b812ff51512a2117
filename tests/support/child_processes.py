"""`evo` in a process of its own, to be interrupted or killed at a known point."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from support.stored_rows import committed_groups


def begin(
    *arguments: str, cwd: Path | None = None, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.Popen[str]:
    """`evo ARGUMENTS` as a child that no terminal controls; its output is piped unless `stdout` says otherwise."""
    return subprocess.Popen(
        [sys.executable, "-m", "evo", *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stdout,
        text=True,
        start_new_session=True,  # what is sent is sent to it alone
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **environment},
    )


def wait_until(reached: Callable[[], bool], child: subprocess.Popen[str], seconds: float = 120) -> None:
    """Return when `reached` says so. The test fails where the child ends first, or not in time."""
    deadline = time.monotonic() + seconds
    while not reached():
        if child.poll() is not None:
            out, err = child.communicate()
            raise AssertionError(f"ended with {child.returncode} before it was to be stopped\n{out}\n{err}")
        if time.monotonic() > deadline:
            child.kill()
            out, err = child.communicate()
            raise AssertionError(f"not reached within {seconds} s\n{out}\n{err}")
        time.sleep(0.02)


def wait_for_groups(child: subprocess.Popen[str], more_than: int, file: Path | str = "evo.db") -> None:
    """Return when the child has committed more than so many prompt groups."""
    wait_until(lambda: committed_groups(file) > more_than, child)
