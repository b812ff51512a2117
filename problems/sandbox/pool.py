"""The sandbox: a pool of warm workers, and what a program is put through on one of them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from problems.sandbox import isolation
from problems.sandbox.contract import (
    CaseOutcome,
    Compiled,
    EvaluatorSpec,
    Limits,
    Mode,
    Program,
    SandboxFault,
    SandboxUnavailable,
)
from problems.sandbox.trial import Trial
from problems.sandbox.worker import Worker, WorkerDied

if TYPE_CHECKING:
    from problems.sandbox.evaluator import Evaluator
    from problems.sandbox.session import Session

_STARTS = 3


class Sandbox:
    """Runs hostile code. Calls block, and may come from any number of threads.

    mode: the isolation chosen, "bwrap", "landlock" or "none" (limits alone)
    """

    @classmethod
    def open(
        cls, mode: Mode = "auto", workers: int | None = None, environment: Mapping[str, str] | None = None
    ) -> Sandbox:
        """`workers` at a time, by default as many as CPUs. Raises SandboxUnavailable, with the remedy, where the mode
        asked for (or with "auto" neither isolation) cannot be had. "none" isolates nothing; auto never chooses it.

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
        compiled: Compiled = (),
    ) -> None:
        self._environment = dict(environment or {})
        self.mode = mode
        self.workers = workers
        self._preload, self._compiled = preload, compiled
        self._slots = threading.Semaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[tuple[int, Worker]] = []
        self._evaluators: list[Evaluator] = []
        self._kin: dict[tuple[tuple[str, ...], Compiled], Sandbox] = {}
        self._closed = False

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker. What is running in another thread ends with its call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            evaluators, self._evaluators = self._evaluators, []
            kin, self._kin = list(self._kin.values()), {}
        for sandbox in kin:
            sandbox.close()
        for _, worker in idle:
            worker.close()
        for evaluator in evaluators:
            evaluator.close()

    # -- workers -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def worker(self, limits: Limits, extra: bool = False) -> Iterator[Worker]:
        """A worker for one request, taken back afterwards unless anything about it is odd.

        extra: beyond the number of workers if need be (a session may wait for another session)
        """
        with contextlib.nullcontext() if extra else self._slots:
            worker = self._take(limits)
            try:
                yield worker
            except BaseException:
                worker.soiled = True  # somewhere in the middle of something
                raise
            finally:
                self._give(worker, limits)

    def _take(self, limits: Limits) -> Worker:
        with self._lock:
            if self._closed:
                raise SandboxFault("the sandbox is closed")
            for at, (size, worker) in enumerate(self._idle):
                if size == limits.scratch:
                    del self._idle[at]
                    return worker
            spare = self._idle.pop()[1] if len(self._idle) >= self.workers else None
        if spare is not None:
            spare.close()
        return start_worker(lambda: Worker(self.mode, limits, None, self._preload, self._environment, self._compiled))

    def _give(self, worker: Worker, limits: Limits) -> None:
        with self._lock:
            if not worker.soiled and not self._closed and len(self._idle) < self.workers:
                self._idle.append((limits.scratch, worker))
                return
        worker.close()

    # -- what it does --------------------------------------------------------------------------------------------

    def run(self, program: Program, limits: Limits | None = None) -> list[CaseOutcome]:
        """One outcome per case, in their order. Raises SandboxFault for faults of the sandbox, ValueError for a case
        that is no expression; never anything for what the program does."""
        limits = limits or Limits()
        if not program.cases:
            return []
        died = ""
        for _ in range(_STARTS):
            try:
                return Trial(self, program, limits).outcomes()
            except WorkerDied as error:
                died = str(error)
        raise SandboxFault(f"the sandbox's worker died {_STARTS} times over one program: {died}")

    def session(self, code: str, limits: Limits | None = None, setup: str = "") -> Session:
        """A candidate that stays for several requests; use it in a `with` block."""
        from problems.sandbox.session import Session

        return Session(self, code, limits or Limits(), setup)

    def preloading(self, modules: tuple[str, ...], compiled: Compiled = (), usual: bool = True) -> Sandbox:
        """One whose workers have imported these installed modules, and compiled these texts of ours, before any
        candidate; closed with this one. usual: and what this one's have imported"""
        wanted = tuple(dict.fromkeys((*(self._preload if usual else ()), *modules))), compiled
        if wanted == (self._preload, self._compiled):
            return self
        with self._lock:
            if self._closed:
                raise SandboxFault("the sandbox is closed")
            if wanted not in self._kin:
                self._kin[wanted] = Sandbox(self.mode, self.workers, wanted[0], self._environment, compiled)
            return self._kin[wanted]

    def evaluator(self, spec: EvaluatorSpec, limits: Limits | None = None) -> Evaluator:
        """A user's scorer file, loaded out of process. Raises SandboxFault naming the file where loading fails."""
        from problems.sandbox.evaluator import Evaluator

        own = limits or Limits(processes=64)
        evaluator = Evaluator(self.mode, spec, own, self.workers, self._environment)
        with self._lock:
            self._evaluators.append(evaluator)
        return evaluator


def start_worker(start: object) -> Worker:
    """A started worker, tried a bounded number of times."""
    died = ""
    for _ in range(_STARTS):
        try:
            worker: Worker = start()  # type: ignore[operator]
            return worker
        except WorkerDied as error:
            died = str(error)
    raise SandboxFault(f"a sandbox worker died {_STARTS} times while starting: {died}")
