"""The one sandbox of a process: opened by the first problem that needs it, closed when the process ends."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from problems.sandbox import Sandbox

Mode = Literal["auto", "bwrap", "landlock", "none"]

_lock = threading.Lock()
_mode: Mode = "auto"
_workers: int | None = None
_sandbox: Sandbox | None = None


def set_sandbox_mode(mode: Mode, workers: int | None = None) -> None:
    """How the shared sandbox will be opened. Closes one that is open in another way; call it before scoring starts."""
    global _mode, _workers
    if mode not in ("auto", "bwrap", "landlock", "none"):
        raise ValueError(f"sandbox mode {mode!r}: it is auto, bwrap, landlock or none")
    with _lock:
        changed = (mode, workers) != (_mode, _workers)
        _mode, _workers = mode, workers
    if changed:
        close_shared_sandbox()


def shared_sandbox() -> Sandbox:
    """The sandbox, opened on first use. Raises SandboxUnavailable with the remedy."""
    global _sandbox
    with _lock:
        if _sandbox is None:
            from problems.sandbox import Sandbox

            _sandbox = Sandbox.open(_mode, workers=_workers)
        return _sandbox


@atexit.register
def close_shared_sandbox() -> None:
    """End its workers. The next use opens it again; safe to call when none is open."""
    global _sandbox
    with _lock:
        closing, _sandbox = _sandbox, None
    if closing is not None:
        closing.close()
