"""Runs hostile programs, and users' scorers, where they can do no harm. `child/confinement.py` says what is covered.

Begin with `pool`, which has the Sandbox; `contract` is what is asked of it and what it answers.
"""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, get_args

from problems.sandbox.contract import Mode

if TYPE_CHECKING:
    from problems.sandbox.pool import Sandbox


_lock = threading.Lock()
_mode: Mode = "auto"
_sandbox: Sandbox | None = None


def set_sandbox_mode(mode: Mode) -> None:
    """How the shared sandbox will be opened. Closes one that is open in another way; call it before scoring starts."""
    global _mode
    if mode not in get_args(Mode):
        raise ValueError(f"sandbox mode {mode!r}: it is auto, bwrap, landlock or none")
    with _lock:
        changed, _mode = mode != _mode, mode
    if changed:
        close_shared_sandbox()


def shared_sandbox() -> Sandbox:
    """The sandbox, opened on first use. Raises SandboxUnavailable with the remedy."""
    global _sandbox
    with _lock:
        if _sandbox is None:
            from problems.sandbox.pool import Sandbox

            _sandbox = Sandbox(_mode)
        return _sandbox


@atexit.register
def close_shared_sandbox() -> None:
    """End its workers. The next use opens it again; safe to call when none is open."""
    global _sandbox
    with _lock:
        closing, _sandbox = _sandbox, None
    if closing is not None:
        closing.close()
