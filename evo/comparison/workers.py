"""Runners in worker processes, so that small policies on a CPU do not wait for one another's interpreter.

A worker is driven over a pipe: it takes orders, and answers with how each step went. When the pipe breaks, because the
process at the terminal is gone, the worker finishes what is in flight and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from evo.comparison.runner import Ended, Runner, SeedBatch
from evo.config.run import RunConfig
from evo.errors import BadInput, SearchFailed
from evo.exit_status import exit_code_of
from evo.runs.scorer_change import UNCHANGED, Changes
from evo.search.resources import policy_key
from evo.search.stop import FINISHING, Stop, StopReason

JOIN_SECONDS = 20.0


class WorkerFailed(Exception):
    """A fault inside a worker that is no known one; the message is its traceback."""


class Workers:
    """Several workers that act as one runner. The runs of a seed batch are dealt out in turn, so that arms which take
    long are spread; a policy may be loaded by several workers, which is why only small ones are searched like this."""

    def __init__(self, count: int) -> None:
        self.paused = False
        self.stopping: Stop | None = None
        self._workers = [RunnerProcess() for _ in range(count)]

    async def prepare(self, configs: Sequence[RunConfig]) -> None:
        """Start the processes and let them load every policy once between them, to find what is wrong."""
        different = list({policy_key(config): config for config in configs}.values())
        with _interrupts_blocked(), _main_hidden():  # a Ctrl-C is the parent's to pass on
            for worker in self._workers:
                worker.start()
        for seat, worker in enumerate(self._workers):
            worker.send("prepare", different[seat :: len(self._workers)])
        await self._receive_all()

    async def search(self, db: str, seed_batches: Sequence[SeedBatch], changes: Changes = UNCHANGED) -> list[Ended]:
        """Deal out the runs and wait for all of them."""
        for seat, worker in enumerate(self._workers):
            own = [batch[seat :: len(self._workers)] for batch in seed_batches]
            worker.send("search", db, [batch for batch in own if batch], changes)
        return [ended for answer in await self._receive_all() for ended in answer]

    async def _receive_all(self) -> list[Any]:
        """Every worker's answer. The first fault stops the others, whose answers are awaited all the same."""
        waiting = [asyncio.create_task(worker.receive()) for worker in self._workers]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            if any(task.done() and task.exception() for task in waiting):
                self.interrupt(Stop(StopReason.INTERRUPTED, "interrupted; another process failed"))
            results = await asyncio.gather(*waiting, return_exceptions=True)
        except asyncio.CancelledError:
            for worker in self._workers:
                worker.send("cancel")
            await asyncio.gather(*waiting, return_exceptions=True)
            raise
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return list(results)

    def pause(self) -> None:
        self.paused = True
        self._send_all("pause")

    def resume(self) -> None:
        self.paused = False
        self._send_all("resume")

    def interrupt(self, stop: Stop) -> None:
        self.stopping = stop
        self._send_all("interrupt", stop)

    def stop(self) -> None:
        self.interrupt(FINISHING)

    def _send_all(self, *order: Any) -> None:
        for worker in self._workers:
            worker.send(*order)

    async def close(self) -> None:
        for worker in self._workers:
            worker.send("close")
        for worker in self._workers:
            await asyncio.to_thread(worker.join)


class RunnerProcess:
    """The parent's end of one process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads of torch in no known state
        self._pipe, self._theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(self._theirs,), name="evo worker", daemon=False)

    def start(self) -> None:
        self._process.start()
        self._theirs.close()

    def send(self, *order: Any) -> None:
        """An order: the name of a Runner's method and its arguments, `cancel`, or `close`."""
        with contextlib.suppress(BrokenPipeError, OSError):  # a worker that is gone says so where its answer is awaited
            self._pipe.send(order)

    async def receive(self) -> Any:
        """What the last order came to; raises what it raised in the process."""
        try:
            kind, content = await asyncio.to_thread(self._pipe.recv)
        except (EOFError, OSError):
            await asyncio.to_thread(self._process.join, JOIN_SECONDS)
            code = self._process.exitcode
            raise SearchFailed(f"a search process ended by itself (exit code {code}); evo resume continues") from None
        if kind == "fault":
            raise content
        if kind == "bug":
            raise WorkerFailed(content)
        return content

    def join(self) -> None:
        if self._process.pid is None:
            return
        self._process.join(JOIN_SECONDS)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(JOIN_SECONDS)
        self._pipe.close()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """What this thread starts meanwhile has SIGINT blocked. Any thread may do this, unlike setting a handler."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _main_hidden() -> Iterator[None]:
    """Processes that are spawned meanwhile do not import the caller's script, which need not be written for that."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(pipe: Connection) -> None:
    """The process: obeys until it is told to close, or nobody is there to tell it anything."""
    for number in (signal.SIGINT, signal.SIGHUP):  # the parent's to pass on
        signal.signal(number, signal.SIG_IGN)
    asyncio.run(_obey(pipe))
    os._exit(0)  # threads of a policy that was cancelled in a call may still run


async def _obey(pipe: Connection) -> None:
    runner = Runner()
    loop = asyncio.get_running_loop()
    orders: asyncio.Queue[tuple[Any, ...]] = asyncio.Queue()
    work: list[asyncio.Task[Any]] = []

    def heard() -> None:
        try:
            order = pipe.recv()
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            runner.interrupt(Stop(StopReason.INTERRUPTED, "interrupted; the process that watched over it is gone"))
            orders.put_nowait(("close",))
            return
        kind, *rest = order
        if kind in ("pause", "resume", "interrupt"):
            getattr(runner, kind)(*rest)
        elif kind == "cancel":
            for task in work:
                task.cancel()
        else:
            orders.put_nowait(order)

    loop.add_reader(pipe.fileno(), heard)
    for number in (signal.SIGTERM,):
        loop.add_signal_handler(
            number, lambda: runner.interrupt(Stop(StopReason.INTERRUPTED, "interrupted; asked to end"))
        )
    while True:
        kind, *rest = await orders.get()
        if kind == "close":
            break
        work[:] = [asyncio.create_task(getattr(runner, kind)(*rest))]
        answer = await _outcome(work[0])
        with contextlib.suppress(BrokenPipeError, OSError):
            pipe.send(answer)
    await runner.close()


async def _outcome(task: asyncio.Task[Any]) -> tuple[str, Any]:
    try:
        return "done", await task
    except asyncio.CancelledError:
        return "fault", BadInput("cancelled")
    except Exception as error:
        if exit_code_of(error) is None:
            return "bug", traceback.format_exc()
        return "fault", portable(error)


def portable(error: Exception) -> Exception:
    """The error as another process can raise it: of its class, with its message alone."""
    message = " ".join(str(error).split())
    try:
        return type(error)(message)
    except TypeError:
        return SearchFailed(message)
