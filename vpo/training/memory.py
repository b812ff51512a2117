"""Giving memory back. A training step takes and frees hundreds of megabytes in pieces of all sizes, and the C library
keeps what was freed, for each thread by itself: a search that trains would grow to several gigabytes."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _trim() -> Callable[[int], Any] | None:
    """glibc's malloc_trim; None with another C library."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim
    except (OSError, AttributeError):
        return None


def give_back() -> None:
    """Return what is free to the system; some tens of milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)
