"""The sandbox: pools of warm workers for programs, for sessions and for users' scorer files."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from problems.sandbox import isolation, scratch
from problems.sandbox.child.wire import FAILED, RESULT, Malformed, decode, encode
from problems.sandbox.contract import (
    WALL_FACTOR,
    CaseOutcome,
    EvaluatorSpec,
    HostCall,
    Limits,
    Mode,
    Program,
    SandboxFault,
    SandboxUnavailable,
    ScratchFile,
)
from problems.sandbox.program_run import (
    DEATHS,
    case_outcome,
    plain_fields,
    read_messages,
    read_result,
    reason,
    run_program,
    too_much_output,
)
from problems.sandbox.worker import Heard, Worker, WorkerDied, WorkerPool, outlive_workers

if TYPE_CHECKING:
    pass


class Sandbox:
    """Runs hostile code. Calls block, and may come from any number of threads.

    mode: the isolation in use, "bwrap", "landlock" or "none" (limits only)
    """

    @classmethod
    def open(
        cls, mode: Mode = "auto", workers: int | None = None, environment: Mapping[str, str] | None = None
    ) -> Sandbox:
        """`workers` at a time, by default as many as CPUs. Raises SandboxUnavailable, with the remedy, if the requested
        mode (or with "auto" either isolation) does not work here. "none" isolates nothing; auto never chooses it.

        environment: variables of the workers' interpreters, as another PYTHONHASHSEED than the fixed one
        """
        if mode == "auto":
            mode_chosen = isolation.choose_mode()
        else:
            reason = isolation.probe(mode)
            if reason is not None:
                raise SandboxUnavailable(f"sandbox {mode}: {reason}. To get it, {isolation.REMEDY}")
            mode_chosen = mode
        return cls(mode_chosen, workers or len(os.sched_getaffinity(0)), environment=environment)

    def __init__(
        self,
        mode: str,
        workers: int,
        preload: tuple[str, ...] = ("numpy",),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = dict(environment or {})
        self.mode = mode
        self.workers = workers
        self._preload = preload
        self._lock = threading.Lock()
        self._pools: dict[int, WorkerPool] = {}  # by the size of scratch, which a worker is started with
        self._evaluators: list[Evaluator] = []
        self._closed = False

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker. What is running in another thread ends with its call."""
        with self._lock:
            self._closed = True
            closing: list[WorkerPool | Evaluator] = [*self._pools.values(), *self._evaluators]
            self._evaluators = []
        for part in closing:
            part.close()

    def pool(self, limits: Limits) -> WorkerPool:
        """The workers for programs of these limits."""
        with self._lock:
            self._check_open()
            if limits.scratch not in self._pools:

                def start() -> Worker:
                    return Worker(self.mode, limits, None, self._preload, self._environment)

                self._pools[limits.scratch] = WorkerPool(start, self.workers, "the sandbox is closed")
            return self._pools[limits.scratch]

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxFault("the sandbox is closed")

    def run(self, program: Program, limits: Limits | None = None) -> list[CaseOutcome]:
        """One outcome per case, in their order. Raises SandboxFault for faults of the sandbox, ValueError for a case
        that is no expression; never anything for what the program does."""
        limits = limits or Limits()
        return run_program(self.pool(limits), program, limits) if program.cases or program.tests else []

    def session(self, code: str, limits: Limits | None = None, setup: str = "") -> SandboxSession:
        """A candidate that stays for several requests; use it in a `with` block."""
        limits = limits or Limits()
        return SandboxSession(self.pool(limits), code, limits, setup)

    def evaluator(self, spec: EvaluatorSpec, limits: Limits | None = None) -> Evaluator:
        """A user's scorer file, loaded out of process. Raises SandboxFault naming the file if loading fails."""
        own = limits or Limits(processes=64)
        evaluator = Evaluator(self.mode, spec, own, self.workers, self._environment)
        with self._lock:
            self._evaluators.append(evaluator)
        return evaluator


class Evaluator:
    """Calls functions of one scorer file. Thread-safe: each thread's call has a worker of its own, up to `workers`."""

    def __init__(
        self,
        mode: str,
        spec: EvaluatorSpec,
        limits: Limits,
        workers: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._spec, self._limits = spec, limits
        self._pool = WorkerPool(
            lambda: Worker(mode, limits, spec, environment=environment),
            workers,
            f"{spec.path}: the evaluator is closed",
            costly=True,
        )

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()

    def call(
        self,
        function: str,
        *args: Any,
        timeout: float,
        files: Mapping[str, str] | None = None,
        host_call: HostCall | None = None,
    ) -> CaseOutcome:
        """Call a function of the file (or a method: dotted names are followed) in a fresh fork of its worker.

        args: plain data, or ScratchFile(name) for the path of one of `files`
        timeout: seconds of CPU time, or of wall time if it sleeps (problems.sandbox.worker), after which the whole
            process tree is killed
        files: name -> text, written into the scratch folder first
        host_call: answers `host_call(name, *args, **kwargs)` of the file's module, in this thread; its time does not
            count. Its exception is a RuntimeError there, with its class and text
        Raises SandboxFault for faults of the sandbox, Unplain (a TypeError) for other arguments.
        """
        written = dict(files or {})
        for name in written:
            if os.path.basename(name) != name or name in ("", ".", ".."):
                raise ValueError(f"a scratch file needs a plain name, not {name!r}")
        task: dict[str, Any] = {
            "function": function,
            "arguments": [[True, a.name] if isinstance(a, ScratchFile) else [False, encode(a)] for a in args],
            "files": written,
            "calls_host": host_call is not None,
        }
        return outlive_workers(lambda: self._run(task, timeout, host_call), f"one call of {self._spec.path}")

    def _run(self, task: dict[str, Any], timeout: float, host_call: HostCall | None) -> CaseOutcome:
        with self._pool.lend() as worker:
            folder = None
            if worker.scratch is not None:
                folder = scratch.make(worker.hello["uid"] if os.geteuid() == 0 else None, worker.scratch)
            try:
                return self._listen(worker, {**task, "scratch": folder}, timeout, host_call)
            finally:
                if folder is not None:
                    scratch.remove(folder)

    def _listen(self, worker: Worker, task: dict[str, Any], timeout: float, host_call: HostCall | None) -> CaseOutcome:
        limits = replace(self._limits, cpu_seconds=timeout, wall_seconds=timeout * WALL_FACTOR)
        worker.begin(task, limits)
        output, reply, failure, ended = read_result(worker, limits, _read_reply, bounded=False, host_call=host_call)
        value = None
        if failure is None and reply is not None:
            status, value, message = reply
        else:
            status, message = failure or reason(ended, 0)
        text = output.decode("utf-8", "replace")
        return CaseOutcome(status, value, text, message, worker.deadline.wall, ended.cpu_seconds)


def _read_reply(body: bytes) -> list[Any]:
    """[status, value, message]. Raises Malformed."""
    status, value, message = plain_fields(body, (str, str, str))
    if status not in ("ok", "error", "memory"):
        raise Malformed("no such status")
    return [status, decode(value), message]


class SandboxSession:
    """A process of the candidate's own for as long as the `with` block lasts. Not to be shared between threads.

    The code is executed at the first evaluation, of which it is a part; if it fails, every evaluation answers with that
    failure. If an evaluation ends the process (a time-out, a crash), the next one starts a new process, which remembers
    nothing.
    """

    def __init__(self, pool: WorkerPool, code: str, limits: Limits, setup: str) -> None:
        self._pool, self._limits = pool, limits
        task = {"kind": "session", "code": code, "setup": setup}
        self._task = {**task, "output": limits.output, "cpu": limits.cpu_seconds}
        self._stack = ExitStack()
        self._worker: Worker | None = None  # while a process runs
        self._deaths = 0
        self._used = 0.0  # CPU seconds of the evaluations that its process has done
        self._failed: CaseOutcome | None = None

    def __enter__(self) -> SandboxSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _end(self, exchanging: bool = False) -> None:
        """Give the worker back with its fork ended. exchanging: in the middle of an exchange, so that it is replaced"""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.soiled = worker.soiled or exchanging
            if not worker.soiled:
                try:
                    worker.kill()
                except WorkerDied:
                    worker.soiled = True
        self._stack.close()

    def evaluate(self, expression: str, bindings: Mapping[str, Any] | None = None) -> CaseOutcome:
        """The value of `expression` among the candidate's names.

        bindings: names set before it, to plain values. Raises Unplain (a TypeError) for others
        Raises SandboxFault for faults of the sandbox.
        """
        request = {"expression": expression, "bindings": encode(dict(bindings or {}))}
        if self._failed is not None:
            return self._failed
        if self._deaths >= DEATHS:
            return CaseOutcome("crash", message=f"not run: {self._deaths} evaluations ended the program")
        return outlive_workers(lambda: self._attempt(request), "one session")

    def _attempt(self, request: dict[str, Any]) -> CaseOutcome:
        received: list[tuple[bytes, CaseOutcome]] = []

        def take(heard: Heard) -> bool:
            for kind, body in heard.frames[:1]:
                if kind not in (RESULT, FAILED):
                    raise Malformed("an unexpected message")
                received.append((kind, case_outcome(body)))
            return bool(received)

        try:
            if self._worker is None:
                self._worker, self._used = self._stack.enter_context(self._pool.lend(extra=True)), 0.0
                self._worker.begin(self._task, self._limits)
            worker = self._worker
            worker.tell(request)
            worker.deadline.restart(self._used)
            failure, ended = read_messages(worker, self._limits, take)
        except BaseException:
            self._end(exchanging=True)
            raise
        wall = worker.deadline.wall
        if received:
            ((kind, outcome),) = received
            self._used += outcome.cpu_seconds
            self._failed = outcome if kind == FAILED else None
            died = outcome.message == too_much_output(self._limits)  # which ended it
        else:
            assert ended is not None
            status, message = failure or reason(ended, 0)
            outcome = CaseOutcome(status, message=message, cpu_seconds=0.0 if failure is None else ended.cpu_seconds)
            died = True
        self._deaths += died
        if died or ended is not None or self._failed is not None:
            self._end()
        return dataclasses.replace(outcome, wall_seconds=wall)
