"""Signals that ask a process to end: Ctrl-C, TERM, and the end of a terminal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def handling(handler: Callable[[int], object], *numbers: signal.Signals) -> Iterator[None]:
    """In this block these signals call the handler with their number. An ignored one stays ignored, as HUP under nohup;
    outside the main thread, which alone may set handlers, nothing changes."""
    main = threading.current_thread() is threading.main_thread()
    heard = [number for number in numbers if main and signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: handler(number)) for number in heard}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former or signal.SIG_DFL)
