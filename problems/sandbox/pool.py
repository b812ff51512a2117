"""The sandbox: a pool of warm workers, and what a program is put through on one of them."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from problems.sandbox import ending, isolation
from problems.sandbox.child.wire import LOADED, RESULT, Malformed
from problems.sandbox.contract import CaseOutcome, CaseStatus, EvaluatorSpec, Limits, Program
from problems.sandbox.contract import SandboxFault, SandboxUnavailable
from problems.sandbox.worker import Exit, Heard, Worker, WorkerDied

if TYPE_CHECKING:
    from problems.sandbox.evaluator import Evaluator
    from problems.sandbox.session import Session

_STARTS = 3
DEATHS = 3
"""Forks that a candidate may cost (time-outs, crashes) before its remaining cases go unrun."""


class Sandbox:
    """Runs hostile code. Calls block, and may come from any number of threads.

    mode: the isolation chosen, "bwrap", "landlock" or "none" (limits alone)
    """

    @classmethod
    def open(cls, mode: Literal["auto", "bwrap", "landlock", "none"] = "auto", workers: int | None = None) -> Sandbox:
        """`workers` at a time, by default as many as CPUs. Raises SandboxUnavailable, with the remedy, where the mode
        asked for (or with "auto" neither isolation) cannot be had. "none" isolates nothing and is never chosen by auto."""
        if mode == "auto":
            mode_chosen = isolation.choose_mode()
        else:
            reason = isolation.probe(mode)
            if reason is not None:
                raise SandboxUnavailable(f"sandbox {mode}: {reason}. To get it, {isolation.REMEDY}")
            mode_chosen = mode
        return cls(mode_chosen, workers or len(os.sched_getaffinity(0)))

    def __init__(self, mode: str, workers: int, preload: tuple[str, ...] = ("numpy",)) -> None:
        self.mode = mode
        self.workers = workers
        self._preload = preload
        self._slots = threading.Semaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[tuple[int, Worker]] = []
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
            idle, self._idle = self._idle, []
            evaluators, self._evaluators = self._evaluators, []
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
        return start_worker(lambda: Worker(self.mode, limits, preload=self._preload))

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

    def evaluator(self, spec: EvaluatorSpec, limits: Limits | None = None) -> Evaluator:
        """A user's scorer file, loaded out of process. Raises SandboxFault naming the file where loading fails."""
        from problems.sandbox.evaluator import Evaluator

        evaluator = Evaluator(self.mode, spec, limits or Limits(processes=64), self.workers)
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


class Trial:
    """One program on its way through its cases, over as many forks as it takes."""

    def __init__(self, sandbox: Sandbox, program: Program, limits: Limits) -> None:
        self.sandbox, self.program, self.limits = sandbox, program, limits
        self.done: list[CaseOutcome] = []
        self.deaths = 0

    def outcomes(self) -> list[CaseOutcome]:
        cases = self.program.cases
        while len(self.done) < len(cases):
            if self.deaths >= DEATHS:
                last = self.done[-1]
                self._rest(last.status, f"not run: {self.deaths} cases ended the program ({last.message})")
                break
            with self.sandbox.worker(self.limits) as worker:
                if self.program.mode == "stdin":
                    while len(self.done) < len(cases) and self.deaths < DEATHS and not worker.soiled:
                        self._stdin(worker, cases[len(self.done)])
                else:
                    self._calls(worker, cases[len(self.done) :])
        for case, outcome in zip(cases, self.done, strict=True):
            if self.program.mode == "calls" and outcome.message.startswith("SyntaxError"):
                _check_expression(case)
        return self.done

    def _rest(self, status: CaseStatus, message: str) -> None:
        self.done += [CaseOutcome(status, message=message) for _ in self.program.cases[len(self.done) :]]

    def _calls(self, worker: Worker, cases: tuple[str, ...]) -> None:
        limits, first = self.limits, len(self.done)
        hard = math.ceil(limits.cpu_seconds) * (len(cases) + 1) + 1
        task = {
            "kind": "calls",
            "code": self.program.code,
            "setup": self.program.setup,
            "cases": cases,
            "output": limits.output,
            "cpu": limits.cpu_seconds,
        }
        last = time.perf_counter()
        worker.begin(task, limits, hard, ending.frame_limit(limits))
        loaded = False
        while True:
            failure: tuple[CaseStatus, str] | None = None
            heard = Heard()
            try:
                heard = worker.listen(last + limits.wall_seconds)
                now = time.perf_counter()
                results = []
                for kind, body in heard.frames:
                    if kind == LOADED and not loaded:
                        loaded = True
                    elif kind == RESULT and len(self.done) + len(results) < len(self.program.cases):
                        results.append(ending.case_outcome(body))
                    else:
                        raise Malformed("a message that nobody asked for")
                self.done += shared(results, now - last)
                if heard.frames:
                    last = now
                if results and not loaded:  # the code itself failed, and every case with it
                    self.done[first + 1 :] = []
                    failed = self.done.pop()
                    self.done += [failed] * len(cases)
                    loaded = True
                elif now - last >= limits.wall_seconds:
                    failure = "timeout", ending.too_slow(limits)
                elif heard.overfull:
                    failure = "output", ending.too_much_scratch(limits)
            except Malformed:
                failure = "crash", ending.FAILED
            complete = len(self.done) == len(self.program.cases)
            ended = heard.exit
            if ended is None and failure is not None:
                ended = worker.kill()
            if ended is None:
                continue
            self.done[first:] = bounded(self.done[first:], ended)
            if not complete:
                self.deaths += 1
                status, message = failure or ending.reason(ended, hard)
                lasting = max(0.0, time.perf_counter() - last)
                if loaded:
                    cpu = max(0.0, ended.cpu_seconds - sum(item.cpu_seconds for item in self.done[first:]))
                    self.done.append(CaseOutcome(status, None, "", message, lasting, cpu))
                else:  # it would go the same way before every case
                    self._rest(status, message)
            elif self.done[-1].status == "output":
                self.deaths += 1
            return

    def _stdin(self, worker: Worker, case: str) -> None:
        limits = self.limits
        hard = math.ceil(limits.cpu_seconds) + 1
        task = {
            "kind": "stdin",
            "code": self.program.code,
            "setup": self.program.setup,
            "case": case,
            "cpu": limits.cpu_seconds,
        }
        started = time.perf_counter()
        worker.begin(task, limits, hard, ending.frame_limit(limits))
        output = bytearray()
        verdict: CaseOutcome | None = None
        failure: tuple[CaseStatus, str] | None = None
        ended: Exit | None = None
        while ended is None:
            try:
                heard = worker.listen(started + limits.wall_seconds)
                ended = heard.exit
                output += heard.output
                for kind, body in heard.frames:
                    if kind != RESULT or verdict is not None:
                        raise Malformed("a message that nobody asked for")
                    verdict = ending.case_outcome(body)
                if len(output) > limits.output:
                    failure = "output", ending.too_much_output(limits)
                elif heard.overfull:
                    failure = "output", ending.too_much_scratch(limits)
                elif ended is None and time.perf_counter() - started >= limits.wall_seconds:
                    failure = "timeout", ending.too_slow(limits)
            except Malformed:
                failure = "crash", ending.FAILED
            if failure is not None and ended is None:
                ended = worker.kill()
        wall = time.perf_counter() - started
        text = output[: limits.output].decode("utf-8", "replace")
        if failure is None and verdict is not None:
            failure = verdict.status, verdict.message
        if failure is None:
            # no verdict: it left by os._exit, whose code says how it thinks it went
            failure = ("ok", "") if ended.status == 0 else ending.reason(ended, hard)
        status, message = failure
        if status in ("timeout", "output", "crash"):
            self.deaths += 1
        value = text if status == "ok" else None
        self.done.append(CaseOutcome(status, value, text, message, wall, ended.cpu_seconds))


def shared(results: list[CaseOutcome], interval: float) -> list[CaseOutcome]:
    """Results that arrived together share the parent's interval in the proportion that they claim."""
    claimed = sum(item.wall_seconds for item in results)
    return [
        dataclasses.replace(
            item,
            wall_seconds=interval * (item.wall_seconds / claimed if claimed > 0 else 1 / len(results)),
        )
        for item in results
    ]


def bounded(results: list[CaseOutcome], ended: Exit) -> list[CaseOutcome]:
    """The claimed CPU seconds of cases, scaled down where they come to more than the fork took."""
    claimed = sum(item.cpu_seconds for item in results)
    if claimed <= ended.cpu_seconds or claimed == 0:
        return results
    scale = ended.cpu_seconds / claimed
    return [dataclasses.replace(item, cpu_seconds=item.cpu_seconds * scale) for item in results]


def _check_expression(case: str) -> None:
    try:
        compile(case, "<case>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"a test case is not a Python expression: {case[:200]!r} ({error})") from None
