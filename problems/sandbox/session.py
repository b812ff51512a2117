"""A candidate that stays for several requests, and may call the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from problems.sandbox import result
from problems.sandbox.child.wire import FAILED, HOST_CALL, LOADED, RESULT, Malformed, encode
from problems.sandbox.contract import CaseOutcome, HostCall, Limits
from problems.sandbox.program_run import DEATHS
from problems.sandbox.worker import Heard, Worker, WorkerDied
from problems.sandbox.worker_pool import WorkerPool, outlive_workers

if TYPE_CHECKING:
    from types import TracebackType


class SandboxSession:
    """A process of the candidate's own for as long as the `with` block lasts. Not to be shared between threads.

    The code is executed at the first evaluation; if it fails, every evaluation answers with that failure. If an
    evaluation ends the process (a time-out, a crash), the next one starts a new process, which remembers nothing.
    """

    def __init__(self, pool: WorkerPool, code: str, limits: Limits, setup: str) -> None:
        self._pool, self._code, self._limits, self._setup = pool, code, limits, setup
        self._stack = ExitStack()
        self._worker: Worker | None = None
        self._running = False
        self._deaths = 0
        self._used = 0.0  # CPU seconds of the evaluations that its process has done
        self._failed: CaseOutcome | None = None

    def __enter__(self) -> SandboxSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        """Give the worker back with its fork ended."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                if self._running:
                    worker.kill()
            except WorkerDied:
                worker.soiled = True
        self._running = False
        self._stack.close()

    def evaluate(
        self, expression: str, bindings: Mapping[str, Any] | None = None, host_call: HostCall | None = None
    ) -> CaseOutcome:
        """The value of `expression` among the candidate's names.

        bindings: names set before it, to plain values. Raises Unplain (a TypeError) for others
        host_call: answers `host_call(name, *args, **kwargs)` of the candidate, in this thread. Its value goes back, its
            exception becomes a RuntimeError there, with its class and text. Its time does not count.
        Raises SandboxFault for faults of the sandbox.
        """
        request = {"expression": expression, "bindings": encode(dict(bindings or {}))}
        if self._failed is not None:
            return self._failed
        if self._deaths >= DEATHS:
            return CaseOutcome("crash", message=f"not run: {self._deaths} evaluations ended the program")
        return outlive_workers(lambda: self._attempt(request, host_call), "one session")

    def _attempt(self, request: dict[str, Any], host_call: HostCall | None) -> CaseOutcome:
        try:
            if self._running:
                assert self._worker is not None
                self._worker.tell(request)
            elif not self._start(request):
                assert self._failed is not None
                return self._failed
            return self._listen(RESULT, host_call)
        except BaseException:
            self._abandon()  # in the middle of an exchange
            raise

    def _abandon(self) -> None:
        if self._worker is not None:
            self._worker.soiled = True
            self._worker = None
        self._running = False
        self._stack.close()

    def _start(self, request: dict[str, Any]) -> bool:
        """Begin a process, which finds `request` once it has loaded the code. False where it cannot."""
        if self._worker is not None and self._worker.soiled:
            self._release()
        if self._worker is None:
            self._worker = self._stack.enter_context(self._pool.lend(extra=True))
        task = {
            "kind": "session",
            "code": self._code,
            "setup": self._setup,
            "output": self._limits.output,
            "cpu": self._limits.cpu_seconds,
        }
        self._worker.begin(task, self._limits)
        self._worker.tell(request)
        self._running, self._used = True, 0.0
        outcome = self._listen(LOADED, None)
        if outcome.status == "ok":
            return True
        self._failed = outcome
        self._release()
        return False

    def _listen(self, wanted: bytes, host_call: HostCall | None) -> CaseOutcome:
        """The outcome of the last request; counts a death if the process ended over it."""
        worker = self._worker
        assert worker is not None
        worker.deadline.restart(self._used)
        outcomes: list[CaseOutcome] = []
        calls = 0

        def take(heard: Heard) -> bool:
            nonlocal calls
            for at, (kind, body) in enumerate(heard.frames):
                if kind == HOST_CALL and calls < result.HOST_CALLS:
                    calls += 1
                    result.answer_host_call(worker, body, host_call)
                    continue
                wall = worker.deadline.wall
                if kind == LOADED and wanted == LOADED:
                    rest = Heard(heard.frames[at + 1 :], exit=heard.exit, malformed=heard.malformed)
                    heard.exit = None
                    if rest.frames or rest.exit or rest.malformed:
                        worker.unread(rest)
                    outcomes.append(CaseOutcome("ok", wall_seconds=wall))
                    return True
                if kind != wanted and (kind, wanted) != (FAILED, LOADED):
                    raise Malformed("an unexpected message")
                outcomes.append(dataclasses.replace(result.case_outcome(body), wall_seconds=wall))
                return True
            return False

        failure, ended = result.read_messages(worker, self._limits, take)
        self._running = ended is None
        if outcomes:
            self._used += outcomes[0].cpu_seconds
            if outcomes[0].message == result.too_much_output(self._limits):  # which ended it
                worker.kill()
                self._deaths += 1
                self._running = False
            return outcomes[0]
        assert ended is not None
        self._deaths += 1
        status, message = failure or result.reason(ended, 0)
        cpu = 0.0 if failure is None else ended.cpu_seconds
        return CaseOutcome(status, message=message, wall_seconds=worker.deadline.wall, cpu_seconds=cpu)
