"""One worker process seen from the parent: started, asked for a fork, listened to, replaced when anything is odd."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from problems import temp_dirs
from problems.sandbox import launch
from problems.sandbox.child.wire import EXIT, KILL, REQUEST, RUN, RUN_FOLDER, Frames, Malformed, frame
from problems.sandbox.contract import CaseStatus, EvaluatorSpec, Limits, SandboxFault, signal_name

Failure = tuple[CaseStatus, str]
NO_RESULT: Failure = ("crash", "what it wrote is not a result")
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_WATCH_SECONDS = 0.05
_Result = TypeVar("_Result")
_Read = Callable[[bytes, bytes], _Result]


class WorkerDied(Exception):
    """The worker is gone in the middle of a request; the text is the tail of its standard error."""


class Worker:
    """A live worker. One caller at a time. Every method may raise WorkerDied, after which only `close` is of use.

    tainted: it is in the middle of something, or odd: not to be used again
    Of its current or last fork:
    ended: its wait status; None while it runs. cpu_seconds: what it took, once it has ended
    failure: the limit or rule for which it was ended, if any
    output: what it wrote as standard output, up to the limit
    """

    def __init__(self, mode: str, spec: EvaluatorSpec | None = None, preload: tuple[str, ...] = ()) -> None:
        self.mode = mode if spec is None or spec.isolated else "none"
        self.tainted = False
        self._ready = False
        self.scratch: str | None = None
        self._sequence = 0
        self._unsent = memoryview(b"")
        self._open: set[int] = set()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self._start(spec, preload)
        except BaseException:
            self.close()
            raise

    # -- start and end -------------------------------------------------------------------------------------------

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        self._open |= {read, write}
        return read, write

    def _start(self, spec: EvaluatorSpec | None, preload: tuple[str, ...]) -> None:
        requests, self._request = self._pipe()
        self._control, controls = self._pipe()
        self._feed_end, self._feed = self._pipe()
        self._results, results = self._pipe()
        self._output, outputs = self._pipe()
        theirs = (requests, controls, self._feed_end, results, outputs)
        self.process, config = launch.start(self.mode, spec, preload, theirs, self._stderr.fileno())
        self.scratch = None if self.mode == "bwrap" else config["scratch"]
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
        self.tell(config)
        if "error" in (hello := self._hello()):
            where = config["path"] or "a worker could not start"
            raise SandboxFault(f"{where}: {hello['error']}\n{hello['traceback']}")
        self._ready, self._uid = True, config["uid"]
        self._disk: str | None = None if hello["mounts"] else config["scratch"]

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
                self.process.wait(_STOP_SECONDS if self._ready else 0.2)  # it ends what it has forked
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._stderr.close()
        if self.scratch is not None:
            temp_dirs.release(self.scratch)
            self.scratch = None

    def _close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    # -- one fork ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def run(self, task: dict[str, Any], limits: Limits) -> Iterator[None]:
        """A fork that does `task`, for as long as the block lasts; then nothing of it is left."""
        assert self.process is not None
        folder = f"{self._disk}/{RUN_FOLDER}" if self._disk is not None else None
        if folder is not None:
            try:
                launch.scratch_folder(self._uid, folder)
            except OSError as error:
                raise WorkerDied(f"no scratch folder: {error}") from None
        try:
            self._sequence += 1
            self.ended: int | None = None
            self.failure: Failure | None = None
            self.output = bytearray()
            self.cpu_seconds = 0.0
            self._limits = limits
            self._frames = Frames(16 * limits.output + (1 << 16))  # a value as JSON inside JSON
            self._watched = time.monotonic()
            self.deadline = Deadline(self.process.pid, limits.cpu_seconds, limits.wall_seconds)
            self.tell({**task, "limits": vars(limits)})
            self._ask(RUN)
            yield
            if self.ended is None:
                self._kill()
        except BaseException:
            self.tainted = True  # somewhere in the middle of something
            raise
        finally:
            if folder is not None:
                temp_dirs.release(folder)

    def tell(self, message: Any) -> None:
        """Send one message to the fork."""
        self._unsent = memoryview(bytes(self._unsent) + frame(b"T", json.dumps(message).encode()))
        self._push()

    def results(self, read: _Read[_Result]) -> Iterator[_Result]:
        """What `read` makes of each message (its kind and body), until the fork has ended. One that breaks a rule is
        ended. read: may raise Malformed"""
        while self.ended is None:
            overfull = self._listen()
            try:
                for message in self._frames:
                    yield read(*message)
                    if self.failure is not None:
                        return
            except Malformed:
                self.end(*NO_RESULT)
            if len(self.output) > self._limits.output:
                self.end("output", f"more than {self._limits.output} bytes of output")
            elif overfull:
                self.end("output", f"more than {self._limits.scratch} bytes of files")
            elif self.ended is None and (over := self._overdue()):
                self.end("timeout", over)

    def end(self, status: CaseStatus, message: str) -> None:
        """End the fork, for breaking a rule; one that has ended meanwhile has broken it too."""
        self.failure = self.failure or (status, message)
        if self.ended is None:
            self._kill()

    def why(self) -> Failure:
        """Why the fork has ended, while more was wanted of it."""
        if self.failure is not None:
            return self.failure
        assert self.ended is not None
        code = os.waitstatus_to_exitcode(self.ended)
        if code >= 0:
            return "crash", f"the program ended its process (exit code {code})"
        if -code == signal.SIGKILL:
            return "memory", "killed by the kernel, most likely for memory"
        return "crash", f"killed by {signal_name(-code)}"

    def _ask(self, operation: bytes) -> None:
        try:
            os.write(self._request, REQUEST.pack(operation, self._sequence))
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

    def _listen(self) -> bool:
        """Wait for the fork's next messages, output or end, at most until its deadline has to be checked. True if its
        files take too much space."""
        until = self.deadline.next_look
        while True:
            wait = until - time.perf_counter()
            if self._disk is not None:
                wait = min(wait, _WATCH_SECONDS)
            if self._unsent:
                self._poll.register(self._feed, select.POLLOUT)
            ready = {fd for fd, _ in self._poll.poll(max(0, wait * 1000))}
            if self._unsent:
                self._poll.unregister(self._feed)
                self._push()
            if self._control in ready:
                self._take_end()
            if self._output in ready or self.ended is not None:
                self.output += self._all(self._output)
            if self._results in ready or self.ended is not None:
                self._frames.feed(self._all(self._results))
            if self.ended is not None:
                return False
            if self._disk is not None and time.monotonic() - self._watched > _WATCH_SECONDS:
                self._watched = time.monotonic()
                if temp_dirs.disk_size(self._disk, self._limits.scratch) > self._limits.scratch:
                    return True
            if ready & {self._output, self._results} or time.perf_counter() >= until:
                return False

    def _overdue(self) -> str | None:
        """Which limit on time the fork has reached; None for none, or if news of it came meanwhile."""
        over = self.deadline.over()
        ready = {fd for fd, _ in self._poll.poll(0)} if over else set()
        return None if ready & {self._results, self._control} else over

    def _take_end(self) -> None:
        """How the fork has ended, if it has. The feed is emptied of what it did not read: it is not for the next."""
        data = self._read(self._control)
        if data is None:
            return
        if len(data) != EXIT.size:
            raise WorkerDied("malformed message from the sandbox worker" if data else self._tail())
        _, _, self.ended, self.cpu_seconds = EXIT.unpack(data)
        self._unsent = memoryview(b"")
        held = struct.unpack("i", fcntl.ioctl(self._feed, termios.FIONREAD, b"\0" * 4))[0]
        while held > 0:
            held -= len(os.read(self._feed_end, held))

    def _all(self, fd: int) -> bytes:
        """The content of a pipe, a bounded piece of it while the fork is alive and may be adding more."""
        parts = []
        size = 0
        while size < 1 << 20 and (part := self._read(fd)):
            parts.append(part)
            size += len(part)
            if len(part) < 1 << 16:
                break
        return b"".join(parts)

    def _kill(self) -> None:
        """End the fork now, whatever it is doing, and forget what it still had to say."""
        self._ask(KILL)
        until = time.monotonic() + _STOP_SECONDS
        while self.ended is None:
            if time.monotonic() > until:
                raise WorkerDied("the worker did not end a candidate after the order to kill it")
            if self._ending.poll(100):
                self._take_end()
        for fd in (self._results, self._output):  # nothing can add to them
            while self._read(fd):
                pass


_STARTS = 3


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
    """At most `most` workers at work. Thread-safe. A further worker is begun once callers have waited for the others,
    all in all, as long as the last start took.

    start: a new worker, ready; may raise SandboxFault or WorkerDied
    closed_message: of the fault that callers get once it is closed
    """

    def __init__(self, start: Callable[[], Worker], most: int, closed_message: str) -> None:
        self._start, self._most, self._closed_message = start, most, closed_message
        self._changed = threading.Condition()
        self._closed = False
        self._lent = 0  # workers that count towards `most`
        self._seconds = self._patience = 0.0  # of the last start, and what is left of it to be waited
        self.idle: list[Worker] = []

    @contextlib.contextmanager
    def lend(self, extra: bool = False) -> Iterator[Worker]:
        """A worker for one request. extra: beyond `most` if need be (a session may wait for another session)"""
        worker = self._take(extra)
        try:
            yield worker
        except BaseException:
            worker.tainted = True
            raise
        finally:
            self._give(worker, extra)

    def _take(self, extra: bool) -> Worker:
        with self._changed:
            while not (self._closed or self.idle or extra or (self._lent < self._most and self._patience <= 0)):
                began = time.perf_counter()
                self._changed.wait(self._patience if self._lent < self._most else None)
                self._patience -= time.perf_counter() - began
            if self._closed:
                raise SandboxFault(self._closed_message)
            self._lent += not extra
            if self.idle:
                return self.idle.pop()
            self._patience = self._seconds
        began = time.perf_counter()
        try:
            worker = outlive_workers(self._start, "its start")
        except BaseException:
            self._give(None, extra)
            raise
        self._seconds = self._patience = time.perf_counter() - began
        return worker

    def _give(self, worker: Worker | None, extra: bool) -> None:
        """Take it back; one that is tainted ends."""
        with self._changed:
            self._lent -= not extra
            kept = worker is not None and not worker.tainted and not self._closed and len(self.idle) < self._most
            if worker is not None and kept:
                self.idle.append(worker)
            self._changed.notify_all()
        if worker is not None and not kept:
            worker.close()

    def close(self) -> None:
        """End the idle ones; those lent end when they are given back, and waiting callers get a SandboxFault."""
        with self._changed:
            self._closed = True
            idle, self.idle = self.idle, []
            self._changed.notify_all()
        for worker in idle:
            worker.close()


_TICKS = os.sysconf("SC_CLK_TCK")
_CORES = os.cpu_count() or 1
_LOOKS, _BETWEEN = 8, 0.01


class Deadline:
    """The time of one candidate, or of one case after another of it.

    root: the process below which the candidate is to be started
    seconds: of CPU time; longest: of wall time
    """

    def __init__(self, root: int, seconds: float, longest: float) -> None:
        self._root, self._seconds, self._longest = root, seconds, longest
        self._start = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS) - 1
        self._used, self._began = 0.0, time.perf_counter()
        self.restart(0.0)

    def restart(self, used: float) -> None:
        """Begin the time of the next case; the candidate says that it has used `used` CPU seconds before."""
        self._used = min(used, self._used + _CORES * self.wall)
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
