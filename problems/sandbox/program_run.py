"""One program on its way through its cases: the requests to workers, and how far their answers are believed."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from problems.sandbox.child.wire import FAILED, HOST_CALL, LOADED, RESULT, Malformed, Unplain, decode, encode
from problems.sandbox.contract import CaseOutcome, CaseStatus, HostCall, Limits, Program
from problems.sandbox.worker import NO_RESULT, Worker, WorkerPool, outlive_workers

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
    reply: dict[str, Any] = {"value": "null", "error": None}
    try:
        value = host_call(name, tuple(args), kwargs)
    except Exception as error:
        reply["error"] = f"{type(error).__name__}: {error}"[:_TEXT]
    else:
        try:
            reply["value"] = encode(value)
        except Unplain as error:
            reply["error"] = f"TypeError: the host answered with {error}"
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
