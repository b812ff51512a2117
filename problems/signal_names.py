"""The name of a signal."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    """The name, such as SIGSEGV; a real-time signal has none, and a program may end by one too."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
