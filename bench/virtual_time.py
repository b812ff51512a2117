"""An event loop whose clock is the driver's own processor time plus the time that it would have waited.

Waiting costs nothing here, and what other processes take of the machine does not count, so ten minutes of a search can
be driven in seconds on a busy machine. What the simulation itself costs is taken out (`simulating`). Waits for a disk
or for another host do not show: what is measured is the work of this process.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Clock:
    """skipped: seconds waited for nobody; simulated: processor seconds of the simulation, which count for nothing"""

    def __init__(self) -> None:
        self.skipped = self.simulated = 0.0
        self._depth = 0

    def now(self) -> float:
        return time.process_time() - self.simulated + self.skipped

    @contextmanager
    def simulating(self) -> Iterator[None]:
        """What runs inside is the world's work, not the driver's."""
        began = time.process_time()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.simulated += time.process_time() - began


class _Selector(selectors.DefaultSelector):
    """Skips the time that nothing happens in."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:  # a thread's answer: nothing else is due
            return super().select(None)
        self._clock.skipped += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        super().__init__(_Selector(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.now()
