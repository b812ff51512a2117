"""The workers of one scorer's file: as many as its calls can use, and no more than pay for their start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from problems.sandbox.contract import SandboxFault
from problems.sandbox.worker import Worker


class WorkerPool:
    """Up to `most` workers, each lent to one caller at a time. Thread-safe.

    A further worker is begun once callers have waited for the others, all in all, as long as a start takes; it starts
    beside them, and whoever waits takes what is free first. It loads the scorer's file anew: a caller that waited for
    that each time would lose more than its turn, where evaluations are quick, and win little where they are slow.

    start: a new worker, ready; may raise SandboxFault
    closed_message: of the fault that callers get once it is closed
    """

    def __init__(self, start: Callable[[], Worker], most: int, closed_message: str) -> None:
        """Starts the first worker. Raises what `start` does."""
        self._start, self._most, self._closed_message = start, most, closed_message
        self._changed = threading.Condition()
        self._closed = False
        self._count = 0  # of workers: idle, lent and starting
        self._starting = False
        self._waited = 0.0  # seconds, by all callers, since the last start
        self.idle: list[Worker] = []
        began = time.perf_counter()
        first = self.take()
        self._start_seconds = time.perf_counter() - began
        self.give(first)

    def take(self) -> Worker:
        """A worker, as soon as one is idle; started here where there is none at all. Raises SandboxFault."""
        with self._changed:
            while True:
                if self._closed:
                    raise SandboxFault(self._closed_message)
                if self.idle:
                    return self.idle.pop()
                if self._count == 0:
                    self._count = 1
                    break
                self._wait()
        return self._started()

    def give(self, worker: Worker) -> None:
        """Take it back; one that is soiled ends."""
        with self._changed:
            if not worker.soiled and not self._closed:
                self.idle.append(worker)
                self._changed.notify()
                return
        self._lose()
        worker.close()

    def close(self) -> None:
        """End the idle ones; those lent end when they are given back, and who waits gets a SandboxFault."""
        with self._changed:
            self._closed = True
            idle, self.idle = self.idle, []
            self._changed.notify_all()
        for worker in idle:
            worker.close()

    def _wait(self) -> None:
        """Until something changes, or it is time for a further worker. The condition is held."""
        left = None
        if self._count < self._most and not self._starting:
            left = self._start_seconds - self._waited
            if left <= 0:
                self._waited, self._starting, left = 0.0, True, None
                self._count += 1
                threading.Thread(target=self._start_further, name="sandbox-start", daemon=True).start()
        began = time.perf_counter()
        self._changed.wait(left)
        self._waited += time.perf_counter() - began

    def _start_further(self) -> None:
        try:
            worker = self._started()
        except SandboxFault:
            return  # the others go on; a caller that finds none left starts one, and learns why it cannot
        finally:
            with self._changed:
                self._starting = False
        self.give(worker)

    def _started(self) -> Worker:
        try:
            return self._start()
        except BaseException:
            self._lose()
            raise

    def _lose(self) -> None:
        """There is one worker less."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()
