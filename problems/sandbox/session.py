"""A candidate that stays: asked again and again, and able to ask its parent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from problems.sandbox import ending
from problems.sandbox.child.wire import FAILED, LOADED, ORACLE, RESULT, Malformed, encode
from problems.sandbox.contract import CaseOutcome, Limits, SandboxFault
from problems.sandbox.oracle import ORACLE_CALLS, Oracle, answer_question
from problems.sandbox.pool import Sandbox
from problems.sandbox.trial import DEATHS
from problems.sandbox.worker import Heard, Worker, WorkerDied

if TYPE_CHECKING:
    from types import TracebackType


class Session:
    """A process of the candidate's own for as long as the `with` block lasts. Not to be shared between threads.

    The code is executed at the first evaluation; where it fails, every evaluation answers with that failure. Where an
    evaluation ends the process (a time-out, a crash) the next one starts it anew, without what it had remembered.
    """

    def __init__(self, sandbox: Sandbox, code: str, limits: Limits, setup: str) -> None:
        self._sandbox, self._code, self._limits, self._setup = sandbox, code, limits, setup
        self._stack = ExitStack()
        self._worker: Worker | None = None
        self._running = False
        self._deaths = 0
        self._used = 0.0  # CPU seconds of the evaluations that its process has done
        self._failed: CaseOutcome | None = None
        self._held: Heard | None = None  # what came with an answer and is still to be looked at

    def __enter__(self) -> Session:
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
        self, expression: str, bindings: Mapping[str, Any] | None = None, oracle: Oracle | None = None
    ) -> CaseOutcome:
        """The value of `expression` among the candidate's names.

        bindings: names set before it, to plain values. Raises Unplain (a TypeError) for others
        oracle: what the child's `oracle(name, *args, **kwargs)` asks, in this thread. Its value goes back to the child,
            an exception as a RuntimeError with its class and text. Its time is not the child's.
        Raises SandboxFault for faults of the sandbox.
        """
        request = {"expression": expression, "bindings": encode(dict(bindings or {}))}
        if self._failed is not None:
            return self._failed
        if self._deaths >= DEATHS:
            return CaseOutcome("crash", message=f"not run: {self._deaths} evaluations ended the program")
        died = ""
        for _ in range(DEATHS):
            try:
                if self._running:
                    assert self._worker is not None
                    self._worker.tell(request)
                elif not self._start(request):
                    assert self._failed is not None
                    return self._failed
                return self._listen(RESULT, oracle)
            except WorkerDied as error:
                died = str(error)
                self._abandon()
            except BaseException:
                self._abandon()  # in the middle of an exchange
                raise
        raise SandboxFault(f"the sandbox's worker died {DEATHS} times over one session: {died}")

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
            self._worker = self._stack.enter_context(self._sandbox.worker(self._limits, extra=True))
        task = {
            "kind": "session",
            "code": self._code,
            "setup": self._setup,
            "output": self._limits.output,
            "cpu": self._limits.cpu_seconds,
        }
        self._worker.begin(task, self._limits, 0, ending.frame_limit(self._limits))
        self._worker.tell(request)
        self._running, self._used, self._held = True, 0.0, None
        outcome = self._listen(LOADED, None)
        if outcome.status == "ok":
            return True
        self._failed = outcome
        self._release()
        return False

    def _listen(self, wanted: bytes, oracle: Oracle | None) -> CaseOutcome:
        """The outcome of what was asked last; counts a death where the process ended over it."""
        worker = self._worker
        assert worker is not None
        limits, patience = self._limits, worker.patience
        patience.restart(self._used)
        asked = 0
        while True:
            try:
                heard, self._held = self._held or worker.listen(), None
                for at, (kind, body) in enumerate(heard.frames):
                    if kind == ORACLE and asked < ORACLE_CALLS:
                        asked += 1
                        patience.pause(answer_question(worker, body, oracle))
                        continue
                    wall = patience.wall
                    if kind == LOADED and wanted == LOADED:
                        heard.frames = heard.frames[at + 1 :]
                        self._held = heard if heard.frames or heard.exit or heard.malformed else None
                        return CaseOutcome("ok", wall_seconds=wall)
                    if kind != wanted and (kind, wanted) != (FAILED, LOADED):
                        raise Malformed("a message that nobody asked for")
                    outcome = ending.case_outcome(body)
                    self._used += outcome.cpu_seconds
                    if outcome.message == ending.too_much_output(limits):  # which ended it
                        worker.kill()
                        self._deaths += 1
                        self._running = False
                    if heard.exit:
                        self._running = False
                    return CaseOutcome(
                        outcome.status, outcome.value, outcome.stdout, outcome.message, wall, outcome.cpu_seconds
                    )
                if heard.malformed:
                    raise Malformed("bytes that are no message")
                wall = patience.wall
                if heard.exit:
                    self._running = False
                    self._deaths += 1
                    status, message = ending.reason(heard.exit, 0)
                    return CaseOutcome(status, message=message, wall_seconds=wall)
                if heard.overfull:
                    return self._end("output", ending.too_much_scratch(limits), wall)
                if over := worker.overdue():
                    return self._end("timeout", over, wall)
            except Malformed:
                return self._end("crash", ending.FAILED, patience.wall)

    def _end(self, status: Any, message: str, wall: float) -> CaseOutcome:
        assert self._worker is not None
        ended = self._worker.kill()
        self._running = False
        self._deaths += 1
        return CaseOutcome(status, message=message, wall_seconds=wall, cpu_seconds=ended.cpu_seconds)
