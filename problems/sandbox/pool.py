"""The sandbox: pools of warm workers for programs, for sessions and for users' scorer files."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from problems.sandbox import isolation
from problems.sandbox.contract import (
    CaseOutcome,
    EvaluatorSpec,
    Limits,
    Mode,
    Program,
    SandboxFault,
    SandboxUnavailable,
)
from problems.sandbox.evaluator import Evaluator
from problems.sandbox.program_run import run_program
from problems.sandbox.session import SandboxSession
from problems.sandbox.worker import Worker
from problems.sandbox.worker_pool import WorkerPool


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
