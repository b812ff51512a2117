"""Warm workers of one kind, lent to one caller at a time; those that anything odd happened to are replaced."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from problems.sandbox.contract import SandboxFault
from problems.sandbox.worker import Worker, WorkerDied

_STARTS = 3
_Result = TypeVar("_Result")


def outlive_workers(work: Callable[[], _Result], over: str) -> _Result:
    """The result of `work`, tried a bounded number of times while workers die under it. Raises SandboxFault, which
    names what they died `over`."""
    died = ""
    for _ in range(_STARTS):
        try:
            return work()
        except WorkerDied as error:
            died = str(error)
    raise SandboxFault(f"a sandbox worker died {_STARTS} times over {over}: {died}")


class WorkerPool:
    """At most `most` workers at work. Thread-safe.

    start: a new worker, ready; may raise SandboxFault or WorkerDied
    closed_message: of the fault that callers get once it is closed
    costly: a start costs more than most callers' turns (each worker loads a scorer's file). A further worker is then
        begun only once callers have waited for the others, all in all, as long as a start takes. It starts in a thread,
        and a waiting caller takes whichever worker is free first. The first worker starts with the pool. Without
        `costly`, a caller that finds none idle starts one.
    """

    def __init__(self, start: Callable[[], Worker], most: int, closed_message: str, costly: bool = False) -> None:
        """Raises what `start` does, if it is costly."""
        self._start, self._most, self._closed_message, self._costly = start, most, closed_message, costly
        self._changed = threading.Condition()
        self._closed = False
        self._lent = 0  # workers that count towards `most`
        self._starting = False
        self._waited = 0.0  # seconds, by all callers, since the last start
        self._start_seconds = 0.0
        self.idle: list[Worker] = []
        if costly:
            began = time.perf_counter()
            first = self.take()
            self._start_seconds = time.perf_counter() - began
            self.give(first)

    @contextlib.contextmanager
    def lend(self, extra: bool = False) -> Iterator[Worker]:
        """A worker for one request. extra: beyond `most` if need be (a session may wait for another session)"""
        worker = self.take(extra)
        try:
            yield worker
        except BaseException:
            worker.soiled = True  # somewhere in the middle of something
            raise
        finally:
            self.give(worker, extra)

    def take(self, extra: bool = False) -> Worker:
        with self._changed:
            while not self._may_take(extra):
                self._wait()
            self._lent += not extra
            if self.idle:
                return self.idle.pop()
        try:
            return self._started()
        except BaseException:
            self._return(extra)
            raise

    def give(self, worker: Worker, extra: bool = False) -> None:
        """Take it back; one that is soiled ends."""
        self._return(extra, worker)

    def close(self) -> None:
        """End the idle ones; those lent end when they are given back, and waiting callers get a SandboxFault."""
        with self._changed:
            self._closed = True
            idle, self.idle = self.idle, []
            self._changed.notify_all()
        for worker in idle:
            worker.close()

    def _may_take(self, extra: bool) -> bool:
        if self._closed:
            raise SandboxFault(self._closed_message)
        if self._costly:
            return bool(self.idle) or self._lent + self._starting == 0
        return extra or self._lent < self._most

    def _return(self, extra: bool, worker: Worker | None = None) -> None:
        with self._changed:
            self._lent -= not extra
            kept = worker is not None and not worker.soiled and not self._closed and len(self.idle) < self._most
            if worker is not None and kept:
                self.idle.append(worker)
                self._changed.notify()
            else:
                self._changed.notify_all()
        if worker is not None and not kept:
            worker.close()

    def _wait(self) -> None:
        """Until something changes, or it is time for a further worker. The condition is held."""
        left = None
        if self._costly and not self._starting and self._lent + len(self.idle) < self._most:
            left = self._start_seconds - self._waited
            if left <= 0:
                self._waited, self._starting, left = 0.0, True, None
                threading.Thread(target=self._start_further, name="sandbox-start", daemon=True).start()
        began = time.perf_counter()
        self._changed.wait(left)
        self._waited += time.perf_counter() - began

    def _start_further(self) -> None:
        worker = None
        with contextlib.suppress(SandboxFault):  # a caller that finds no other worker starts one, and learns why not
            worker = self._started()
        with self._changed:
            self._starting = False
            self._lent += 1
        self._return(False, worker)

    def _started(self) -> Worker:
        return outlive_workers(self._start, "its start")
