"""Worker processes: start one, ask it, learn of its end, and end it.

A worker is a Python process that runs one of our functions at the other end of a pipe. The contract:

- `ask` returns a Future. Any number may be open; a worker may answer in any order. Cancelling the Future tells the
  worker `cancel`. An error of the worker raises in `Future.result`: a known fault keeps its class,
  anything else is WorkerFailed with the worker's traceback.
- `tell` sends a message that has no answer. A worker's messages that answer nothing go to `receive`.
- When the process ends, every open Future, and every later one, fails with the same exception, which `lost` makes.
- `end` tells the worker `close` and kills it when its grace is over.
- When its owner is gone, the worker learns it, even if the owner was killed.
- Ctrl-C and a closed terminal are the owner's to answer: a worker ignores both.

A worker on another machine (evo.cluster) answers in the same form: WorkerAnswer.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO, Any

WATCH_SECONDS = 2.0
"""How often a worker looks whether its owner is alive; usually the end of the pipe shows it at once."""
_START = "import sys; from problems.child_process import main; main(*sys.argv[1:])"


class WorkerFailed(RuntimeError):
    """A bug in a worker; the message has its traceback."""


@dataclass(frozen=True)
class WorkerAnswer:
    """A worker's answer: a value, a fault of a known kind, or a bug's traceback."""

    value: Any = None
    fault: Exception | None = None
    bug: str = ""

    def result(self) -> Any:
        """The value. Raises the fault, or WorkerFailed for a bug."""
        if self.bug:
            raise WorkerFailed(f"a worker failed:\n{self.bug}")
        if self.fault is not None:
            raise self.fault
        return self.value


class ChildProcess:
    """The owner's end of a worker. Thread-safe.

    gone: why nothing can be asked; None while the process serves
    """

    def __init__(
        self,
        function: str,
        *,
        lost: Callable[[int, str], Exception],
        receive: Callable[[Any], object] | None = None,
        environment: Mapping[str, str] | None = None,
        log: bool = False,
        own_session: bool = False,
        **streams: Any,
    ) -> None:
        """function: "module:name", called with the worker's Owner
        lost: (exit code, last line of the log) -> the exception of whatever is asked once the process has ended
        receive: called in another thread with messages that answer nothing
        environment: overrides variables of this process
        log: keep what the process prints in a file without a name, whose last line `lost` gets
        own_session: not to be stopped or continued with this process at a terminal
        streams: stdin, stdout and stderr as in subprocess.Popen; stdin is empty by default
        """
        self.gone: Exception | None = None
        self._lost, self._receive = lost, receive
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._log: IO[bytes] | None = tempfile.TemporaryFile() if log else None  # noqa: SIM115  # closed by `end`
        if self._log is not None:
            streams |= {"stdout": self._log, "stderr": self._log}
        self._pipe, theirs = Pipe()
        with theirs, _interrupts_blocked():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(theirs.fileno()), function],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": python_path(), **(environment or {})},
                start_new_session=own_session,
                **{"stdin": subprocess.DEVNULL, **streams},
            )
        self._reader = threading.Thread(target=self._read, name=function, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float | None = None) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(seconds)

    def ask(self, kind: str, content: Any = None) -> Future[Any]:
        """The answer to come."""
        number, future = next(self._numbers), Future[Any]()
        with self._lock:
            if self.gone is not None:
                future.set_exception(self.gone)
                return future
            self._waiting[number] = future
            self._send(number, kind, content)

        def withdraw(answered: Future[Any]) -> None:
            if answered.cancelled() and self._waiting.pop(number, None) is not None:
                self.tell("cancel", number)

        future.add_done_callback(withdraw)
        return future

    def tell(self, kind: str, content: Any = None) -> None:
        """Send a message that has no answer; one to a process that is gone is dropped."""
        with self._lock:
            if self.gone is None:
                self._send(0, kind, content)

    def _send(self, number: int, kind: str, content: Any) -> None:
        with contextlib.suppress(OSError):  # it is gone: the reader finds out why, and answers
            self._pipe.send((number, kind, content))

    def end(self, grace: float, reason: Exception | None = None) -> int:
        """Close the worker, kill it after `grace` seconds, and return its exit code. Safe to call twice, also at once.

        reason: the exception of whatever is asked from now on
        """
        self.tell("close")
        with self._lock:
            self.gone = self.gone or reason
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join()
        with self._lock:  # of two threads that end it at once, the second would close a descriptor of anybody's
            self._pipe.close()
            if self._log is not None:
                self._log.close()
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        while True:
            try:
                number, content = self._pipe.recv()
            except (EOFError, OSError):
                return self._ended()
            if number:
                settle(self._waiting.pop(number, None), content)
            elif self._receive is not None:
                self._receive(content)

    def _ended(self) -> None:
        code = self._process.wait()
        with self._lock:
            self.gone = self.gone or self._lost(code, _last_line(self._log))
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            settle(future, WorkerAnswer(fault=self.gone))


def settle(future: Future[Any] | None, answer: WorkerAnswer) -> None:
    """Complete a Future with an answer; nothing happens if it was cancelled."""
    if future is None:
        return
    with contextlib.suppress(InvalidStateError):  # cancelled in this moment
        try:
            future.set_result(answer.result())
        except InvalidStateError:
            raise
        except Exception as error:  # noqa: BLE001  # raised where it was asked
            future.set_exception(error)


def _last_line(log: IO[bytes] | None) -> str:
    if log is None:
        return ""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 4096))
    lines = log.read().decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def python_path() -> str:
    """PYTHONPATH for a process that imports what this one imports."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that starts meanwhile has SIGINT blocked until `main` ignores it. Any thread may do this."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Owner:
    """The worker's end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()

    def listen(self, deliver: Callable[[int, str, Any], object], gone: Callable[[], object]) -> None:
        """Pass on each message as (number, kind, content), and the owner's end, from another thread.

        number: for `answer`; 0 if the message has no answer
        """
        threading.Thread(target=self._listen, args=(deliver, gone, os.getppid()), daemon=True).start()

    def _listen(self, deliver: Callable[[int, str, Any], object], gone: Callable[[], object], parent: int) -> None:
        with contextlib.suppress(EOFError, OSError):
            while os.getppid() == parent:
                if self._pipe.poll(WATCH_SECONDS):
                    deliver(*self._pipe.recv())
        gone()

    def answer(self, number: int, answer: WorkerAnswer) -> None:
        """Answer the message of this number; dropped if the owner is gone."""
        self._send(number, answer)

    def tell(self, content: Any) -> None:
        """A message that answers nothing."""
        self._send(0, content)

    def _send(self, number: int, content: Any) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._pipe.send((number, content))


def main(descriptor: str, function: str) -> None:
    """The worker's process."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    module, _, name = function.partition(":")
    vars(importlib.import_module(module))[name](Owner(Connection(int(descriptor))))
