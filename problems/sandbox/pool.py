"""The sandbox: pools of warm workers for programs, for sessions and for users' scorer files."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from problems.sandbox import isolation
from problems.sandbox.child.wire import FAILED, LOADED, RESULT, encode
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
)
from problems.sandbox.program_run import DEATHS, cases_task, read_case, read_result, run_program
from problems.sandbox.worker import NO_RESULT, Worker, WorkerPool, outlive_workers


class Sandbox:
    """Runs hostile code. Calls block, and may come from any number of threads.

    mode: the isolation in use, "bwrap", "landlock" or "none" (limits only); programs: the workers for programs
    """

    def __init__(self, mode: Mode = "auto", workers: int | None = None) -> None:
        """`workers` at a time, by default as many as CPUs. Raises SandboxUnavailable, with the remedy, if the requested
        mode (or with "auto" either isolation) does not work here. "none" isolates nothing; auto never chooses it."""
        self.mode: Mode = isolation.choose_mode() if mode == "auto" else mode
        if mode != "auto" and (reason := isolation.probe(mode)) is not None:
            raise SandboxUnavailable(f"sandbox {mode}: {reason}. To get it, {isolation.REMEDY}")
        self._workers = workers or len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._pools: list[WorkerPool] = []
        self._closed = False
        self.programs = self._open_pool(None, "the sandbox is closed")

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker. What is running in another thread ends with its call."""
        with self._lock:
            self._closed = True
            pools, self._pools = self._pools, []
        for pool in pools:
            pool.close()

    def _open_pool(self, spec: EvaluatorSpec | None, closed: str) -> WorkerPool:
        pool = WorkerPool(partial(Worker, self.mode, spec, ("numpy",)), self._workers, closed)
        with self._lock:
            if self._closed:
                raise SandboxFault("the sandbox is closed")
            self._pools.append(pool)
        return pool

    def run(self, program: Program, limits: Limits | None = None) -> list[CaseOutcome]:
        """One outcome per case, in their order. Raises SandboxFault for faults of the sandbox, ValueError for a case
        that is no expression; never anything for what the program does."""
        limits = limits or Limits()
        return run_program(self.programs, program, limits) if program.cases else []

    def session(self, code: str, limits: Limits | None = None) -> SandboxSession:
        """A candidate that stays for several requests; use it in a `with` block."""
        limits = limits or Limits()
        return SandboxSession(self.programs, Program(code, ()), limits)

    def evaluator(self, spec: EvaluatorSpec, limits: Limits | None = None) -> Evaluator:
        """A user's scorer file, loaded out of process. Raises SandboxFault naming the file if loading fails."""
        limits = limits or Limits(processes=64)
        pool = self._open_pool(spec, f"{spec.path}: the evaluator is closed")
        with pool.lend():  # loads it
            return Evaluator(spec, limits, pool)


class Evaluator:
    """Calls functions of one scorer file. Thread-safe: each thread's call has a separate worker, up to as many as the
    sandbox has."""

    def __init__(self, spec: EvaluatorSpec, limits: Limits, pool: WorkerPool) -> None:
        self._spec, self._pool, self._limits = spec, pool, limits

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.close()

    def call(self, function: str, *args: Any, timeout: float, host_call: HostCall | None = None) -> CaseOutcome:
        """Call a function of the file (or a method: dotted names are followed) in a fresh fork of its worker, in a
        separate scratch folder.

        args: plain data. Raises Unplain (a TypeError) for others
        timeout: seconds of CPU time, or of wall time if it sleeps (problems.sandbox.worker), after which the whole
            process tree is killed
        host_call: answers `host_call(name, *args, **kwargs)` of its problems.apart, in this thread; its time does not
            count. Its exception is a RuntimeError there, with its class and text
        Raises SandboxFault for faults of the sandbox.
        """
        task = {"function": function, "arguments": encode(list(args)), "calls_host": host_call is not None}
        limits = dataclasses.replace(self._limits, cpu_seconds=timeout, wall_seconds=timeout * WALL_FACTOR)

        def attempt() -> CaseOutcome:
            with self._pool.lend() as worker:
                with worker.run(task, limits):
                    result = read_result(worker, host_call)
                wall, cpu = worker.deadline.wall, worker.cpu_seconds
                if result is None or worker.failure is not None:
                    status, message = worker.why()
                    return CaseOutcome(status, None, message, wall, cpu)
                return dataclasses.replace(result, wall_seconds=wall, cpu_seconds=cpu)

        return outlive_workers(attempt, f"one call of {self._spec.path}")


class SandboxSession:
    """A separate process of the candidate for as long as the `with` block lasts. Not to be shared between threads.

    The code is executed at the first evaluation, of which it is a part; if it fails, every evaluation answers with that
    failure. If an evaluation ends the process (a time-out, a crash), the next one starts a new process, which remembers
    nothing.
    """

    def __init__(self, pool: WorkerPool, program: Program, limits: Limits) -> None:
        self._pool, self._program, self._limits = pool, program, limits
        self._stack = ExitStack()
        self._worker: Worker | None = None  # while a process runs
        self._deaths = 0
        self._used = 0.0  # CPU seconds of the evaluations that its process has done
        self._failed: CaseOutcome | None = None

    def __enter__(self) -> SandboxSession:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._worker = None
        self._stack.__exit__(*exception)

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
        try:
            if self._worker is None:
                self._worker, self._used = self._stack.enter_context(self._pool.lend(extra=True)), 0.0
                task = cases_task(self._program, (), stays=True)
                self._stack.enter_context(self._worker.run(task, self._limits))
            worker, outcome = self._worker, None
            worker.tell(request)
            worker.deadline.restart(self._used)
            for kind, outcome in worker.results(read_case):
                if kind in (RESULT, FAILED):
                    self._failed = outcome if kind == FAILED else None
                    break
                if kind != LOADED:
                    worker.end(*NO_RESULT)
                outcome = None
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        wall = worker.deadline.wall
        if outcome is None:
            status, message = worker.why()
            cpu = 0.0 if worker.failure is None else worker.cpu_seconds
            outcome = CaseOutcome(status, message=message, cpu_seconds=cpu)
            self._deaths += 1
        self._used += outcome.cpu_seconds
        worker.output.clear()
        if worker.ended is not None or self._failed is not None:
            self.__exit__(None, None, None)
        return dataclasses.replace(outcome, wall_seconds=wall)
