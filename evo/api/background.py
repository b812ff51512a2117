"""Runs work on an event loop in a thread of its own, while the caller waits, shows progress and minds Ctrl-C.

A notebook's cell runs inside an event loop already, which asyncio.run refuses; a thread works everywhere alike. The
first Ctrl-C asks the work to finish what is in flight, a second one stops it at once. The handler is set in the main
thread alone, which is the only one that may, and the one before is put back.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from evo.api.progress import Display, Progress

T = TypeVar("T")
SECONDS_BETWEEN_LOOKS = 0.2


@dataclass
class Job:
    """What work says of itself while it runs. Set from its own thread.

    progress: how far it is, called from the caller's thread; None while it loads
    stop: ends it gently, called on its event loop; None while there is nothing to commit, and then it is cancelled
    name: of what is stored, once it is
    """

    progress: Callable[[], Progress | None] = lambda: None
    stop: Callable[[], None] | None = None
    name: str | None = None


@dataclass(frozen=True)
class Ended(Generic[T]):
    """value: what the work gave; None where it was cancelled. interrupts: how often Ctrl-C was pressed."""

    value: T | None
    interrupts: int


def run_in_background(work: Callable[[Job], Coroutine[Any, Any, T]], display: Display) -> tuple[Job, Ended[T]]:
    """Wait for the work. Raises what it raises."""
    job = Job()
    thread = _Thread(work, job)
    context = copy_context()
    runner = threading.Thread(target=context.run, args=(thread.run,), name="evo", daemon=True)
    with thread.minding_interrupts(), display:
        runner.start()
        while not thread.ended.is_set():
            try:
                thread.ended.wait(SECONDS_BETWEEN_LOOKS)
                display.update(job.progress(), stopping=thread.interrupts > 0)
            except KeyboardInterrupt:  # of a handler that is not ours, as in a debugger
                thread.interrupt()
        runner.join()
        display.update(job.progress(), stopping=thread.interrupts > 0)
    if thread.error is not None:
        raise thread.error
    return job, Ended(thread.value, thread.interrupts)


class _Thread(Generic[T]):
    """The loop and its task, as both threads see them."""

    def __init__(self, work: Callable[[Job], Coroutine[Any, Any, T]], job: Job) -> None:
        self._work, self._job = work, job
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self.ended = threading.Event()
        self.interrupts = 0
        self.value: T | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """The thread's body."""
        try:
            self.value = asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # raised in the caller's thread
            self.error = error
        finally:
            self.ended.set()

    async def _main(self) -> T:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self.interrupts:  # before there was a loop to tell
            raise asyncio.CancelledError
        return await self._work(self._job)

    def interrupt(self) -> None:
        """One Ctrl-C, in the caller's thread."""
        self.interrupts += 1
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # closed, as the work has just ended
                self._loop.call_soon_threadsafe(self._obey, self.interrupts)

    def _obey(self, count: int) -> None:
        if count == 1 and self._job.stop is not None:
            self._job.stop()
        elif self._task is not None:
            self._task.cancel()

    @contextlib.contextmanager
    def minding_interrupts(self) -> Iterator[None]:
        """Ctrl-C comes to `interrupt`, where this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, lambda *_: self.interrupt())
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before or signal.default_int_handler)
