"""One worker process seen from the parent: started, asked for a fork, listened to, replaced when anything is odd."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from problems.sandbox import launch, scratch
from problems.sandbox.child.wire import EXIT, KILL, REQUEST, RUN, Frames, Malformed, frame
from problems.sandbox.contract import EvaluatorSpec, Limits, SandboxFault

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_SHUTDOWN_GRACE = 2.0
"""Seconds in which a worker whose pipes were closed leaves by itself."""
_WATCH_SECONDS = 0.05
_QUIET_SECONDS = 0.004


class WorkerDied(Exception):
    """The worker is gone in the middle of a request; the text is the tail of its standard error."""


@dataclass
class Exit:
    """How a fork ended: its wait status, the CPU seconds it took, whether it left something in scratch."""

    status: int
    cpu_seconds: float
    left: bool


@dataclass
class Heard:
    """What one listen brought."""

    frames: list[tuple[bytes, bytes]] = field(default_factory=list)
    output: bytes = b""
    exit: Exit | None = None
    overfull: bool = False
    malformed: bool = False


class Worker:
    """A live worker. One caller at a time. Every method may raise WorkerDied, after which only `close` is of use."""

    def __init__(
        self,
        mode: str,
        limits: Limits,
        spec: EvaluatorSpec | None = None,
        preload: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.mode = mode if spec is None or spec.isolated else "none"
        self.soiled = False
        self._exit: Exit | None = None
        self._sequence = 0
        self._unsent = memoryview(b"")
        self._frames = Frames(0)
        self.scratch: str | None = None
        self._limits = limits
        self._open: set[int] = set()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.hello = self._start(launch.plan(self.mode, limits, spec, preload, dict(environment or {})))
        except BaseException:
            self.close()
            raise

    # -- start and end -------------------------------------------------------------------------------------------

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        self._open |= {read, write}
        return read, write

    def _start(self, plan: launch.Plan) -> dict[str, Any]:
        self.scratch = None if self.mode == "bwrap" else plan.folder
        requests, self._request = self._pipe()
        self._control, controls = self._pipe()
        self._feed_end, self._feed = self._pipe()
        self._results, results = self._pipe()
        self._output, outputs = self._pipe()
        theirs = (requests, controls, self._feed_end, results, outputs)
        self.process = launch.start(plan, theirs, self._feed_end, self._stderr.fileno())
        for fd in theirs:
            if fd != self._feed_end:  # kept, to take back what a fork died without reading
                self._close(fd)
        for fd in (self._results, self._output, self._control, self._feed):
            os.set_blocking(fd, False)
        self._poll = select.poll()
        for fd in (self._results, self._output, self._control):
            self._poll.register(fd, select.POLLIN)
        self._ending = select.poll()
        self._ending.register(self._control, select.POLLIN)
        self._unsent = memoryview(launch.bundle(plan, theirs))
        hello = self._hello()
        if not hello["ok"]:
            where = f"{plan.config['path']}: " if plan.config["path"] else "a worker could not start: "
            raise SandboxFault(f"{where}{hello['error']}\n{hello['traceback']}")
        return hello

    def _hello(self) -> dict[str, Any]:
        until = time.monotonic() + _START_SECONDS
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            if time.monotonic() > until:
                raise SandboxFault(f"a worker did not start within {_START_SECONDS:.0f} s: {self._tail()}")
            self._push()
            if self._ending.poll(20 if self._unsent else 200):
                part = self._read(self._control)
                if part == b"":
                    raise WorkerDied(self._tail())
                data += part or b""
        hello: dict[str, Any] = json.loads(data[4:])
        return hello

    def _tail(self) -> str:
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)
        size = os.fstat(self._stderr.fileno()).st_size
        text = os.pread(self._stderr.fileno(), 2000, max(0, size - 2000)).decode("utf-8", "replace").strip()
        return text or "no output on stderr"

    def close(self) -> None:
        """End the worker and all it started, remove its scratch folder, release its descriptors."""
        for fd in list(self._open):
            self._close(fd)
        if self.process is not None:
            try:
                self.process.wait(0.2 if self.soiled else _SHUTDOWN_GRACE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._stderr.close()
        if self.scratch is not None:
            scratch.remove(self.scratch)
            self.scratch = None

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    # -- one fork ------------------------------------------------------------------------------------------------

    def begin(self, task: dict[str, Any], limits: Limits, cpu: int = 0, quiet: bool = False) -> None:
        """Have a fork run `task`.

        cpu: its hard limit in seconds, 0 for none
        quiet: wait for its end before its messages are read, if that comes soon
        """
        self._sequence += 1
        self._exit = None
        self._frames = Frames(16 * limits.output + (1 << 16))  # a value and an output, each as JSON inside JSON
        self._limits = limits
        self._watched = time.monotonic()
        # most candidates end within this time, and then their results and their end are read at one awakening
        self._quiet = time.perf_counter() + _QUIET_SECONDS if quiet else 0.0
        assert self.process is not None
        self.deadline = Deadline(self.process.pid, limits.cpu_seconds, limits.wall_seconds)
        self.tell(task)
        self._ask(RUN, cpu, limits)

    def tell(self, message: Any) -> None:
        """Send one message to the fork."""
        self._unsent = memoryview(bytes(self._unsent) + frame(b"T", json.dumps(message).encode()))
        self._push()

    def _ask(self, operation: bytes, cpu: int, limits: Limits) -> None:
        request = REQUEST.pack(
            operation, self._sequence, cpu, limits.memory, limits.output, limits.file, limits.processes
        )
        try:
            os.write(self._request, request)
        except BrokenPipeError:
            raise WorkerDied(self._tail()) from None

    def _push(self) -> None:
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self._feed, self._unsent) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise WorkerDied(self._tail()) from None

    def _read(self, fd: int) -> bytes | None:
        try:
            return os.read(fd, 1 << 16)
        except BlockingIOError:
            return None

    def listen(self) -> Heard:
        """The fork's next messages, output or end; empty when its deadline has to be checked."""
        heard, until = Heard(), self.deadline.next_look
        while True:
            wait = until - time.perf_counter()
            if self.scratch is not None:
                wait = min(wait, _WATCH_SECONDS)
            if self._unsent:
                self._poll.register(self._feed, select.POLLOUT)
            elif (quiet := min(wait, self._quiet - time.perf_counter())) > 0 and not self._ending.poll(quiet * 1000):
                continue
            ready = {fd for fd, _ in self._poll.poll(max(0, wait * 1000))}
            if self._unsent:
                self._poll.unregister(self._feed)
                self._push()
            if self._control in ready:
                heard.exit = self._ended()
            if self._output in ready or heard.exit:
                heard.output = self._all(self._output)
            if self._results in ready or heard.exit:
                self._frames.feed(self._all(self._results))
                try:
                    heard.frames.extend(self._frames)
                except Malformed:
                    heard.malformed = True
            if heard.exit or heard.frames or heard.output or heard.malformed:
                return heard
            if self.scratch is not None and time.monotonic() - self._watched > _WATCH_SECONDS:
                self._watched = time.monotonic()
                if scratch.size(self.scratch, self._limits.scratch) > self._limits.scratch:
                    heard.overfull = True
                    return heard
            if time.perf_counter() >= until:
                return heard

    def overdue(self) -> str | None:
        """Which limit on time the fork has reached; None where there is none, or news of it that came meanwhile."""
        over = self.deadline.over()
        ready = {fd for fd, _ in self._poll.poll(0)} if over else set()
        return None if ready & {self._results, self._control} else over

    def _ended(self) -> Exit | None:
        data = self._read(self._control)
        if data == b"":
            raise WorkerDied(self._tail())
        if data is None:
            return None
        if len(data) != EXIT.size:
            self.soiled = True
            raise WorkerDied("malformed message from the sandbox worker")
        _, _, status, cpu, left = EXIT.unpack(data)
        self._take_back()
        self.soiled = self.soiled or bool(left)
        self._exit = Exit(status, cpu, bool(left))
        return self._exit

    def _take_back(self) -> None:
        """Empty the feed of what the fork did not read: it is not for the next one."""
        self._unsent = memoryview(b"")
        held = struct.unpack("i", fcntl.ioctl(self._feed, termios.FIONREAD, b"\0" * 4))[0]
        while held > 0:
            held -= len(os.read(self._feed_end, held))

    def _all(self, fd: int) -> bytes:
        """What lies in a pipe, a bounded piece of it while the fork is alive and may be adding more."""
        parts = []
        size = 0
        while size < 1 << 20 and (part := self._read(fd)):
            parts.append(part)
            size += len(part)
            if len(part) < 1 << 16:
                break
        return b"".join(parts)

    def kill(self) -> Exit:
        """End the fork now, whatever it is doing, and forget what it still had to say."""
        if self._exit is not None:  # it was quicker
            self.drain()
            return self._exit
        self._ask(KILL, 0, self._limits)
        until = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < until:
            if self._ending.poll(100):
                ended = self._ended()
                if ended is not None:
                    self.drain()
                    return ended
        self.soiled = True
        raise WorkerDied("the worker did not end a candidate after the order to kill it")

    def drain(self) -> None:
        """Drop what is left in the pipes of a fork that has ended; nothing can add to it."""
        for fd in (self._results, self._output):
            while self._read(fd):
                pass


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


_TICKS = os.sysconf("SC_CLK_TCK")
_LOOKS, _BETWEEN = 8, 0.01


class Deadline:
    """The time of one candidate, or of one case after another of it.

    root: the process below which the candidate is to be started
    seconds: of CPU time; longest: of wall time
    """

    def __init__(self, root: int, seconds: float, longest: float) -> None:
        self._root, self._seconds, self._longest = root, seconds, longest
        self._start = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS) - 1
        self.restart(0.0)

    def restart(self, used: float) -> None:
        """Begin the time of the next case; the candidate has used that many CPU seconds before."""
        self._used = used
        self._began = time.perf_counter()
        self.next_look = self._began + min(self._seconds, self._longest)

    def pause(self, seconds: float) -> None:
        """Leave out so much of the wall time: what the candidate waited for the parent."""
        self._began += seconds
        self.next_look += seconds

    @property
    def wall(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._began

    def over(self) -> str | None:
        """Which limit it has reached, None while it may continue. Cheap before `next_look`, on perf_counter's clock."""
        if time.perf_counter() < self.next_look:
            return None
        if self.wall >= self._longest:
            return f"still running after {self._longest:g} s"
        for _ in range(_LOOKS):
            used, busy = processes_below(self._root, self._start)
            if used - self._used >= self._seconds:
                return f"more than {self._seconds:g} s of CPU time"
            if busy:
                self.next_look = time.perf_counter() + max(0.05, self._seconds / 20)
                return None
            time.sleep(_BETWEEN)
        return f"still running after {self._seconds:g} s"


def processes_below(root: int, since: int) -> tuple[float, bool]:
    """The CPU seconds of the processes below `root` that began `since` (in clock ticks after boot), with those of
    children they waited for; and whether any process below it runs, is ready to, or waits for a disk."""
    rows: dict[int, list[str]] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                rows[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
    inside, rest = {root}, set(rows)
    while more := {pid for pid in rest if int(rows[pid][1]) in inside}:
        inside |= more
        rest -= more
    all_below = [rows[pid] for pid in inside if pid in rows]
    ticks = sum(sum(map(int, fields[11:15])) for fields in all_below if int(fields[19]) >= since)
    return ticks / _TICKS, any(fields[0] in "RD" for fields in all_below)
