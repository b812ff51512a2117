"""One program on its way through its cases: the requests to workers, and how far their answers are believed."""

from __future__ import annotations

import dataclasses
import math
import os
import secrets
import signal
import time
from collections.abc import Callable
from typing import Any

from problems.sandbox.child.wire import FAILED, HOST_CALL, LOADED, RESULT, Malformed, Unplain, decode, encode
from problems.sandbox.contract import CaseOutcome, CaseStatus, HostCall, Limits, Program, Tests, signal_name
from problems.sandbox.worker import Exit, Heard, Worker, WorkerPool, outlive_workers

DEATHS = 3
"""Forks that a candidate may cost (time-outs, crashes) before its remaining cases go unrun."""


def run_program(pool: WorkerPool, program: Program, limits: Limits) -> list[CaseOutcome]:
    """One outcome per case. Raises SandboxFault for faults of the sandbox, ValueError for a case that is no
    expression."""
    return outlive_workers(lambda: _ProgramRun(program, limits).outcomes(pool), "one program")


class _ProgramRun:
    """A program's cases, over as many forks as they take."""

    def __init__(self, program: Program, limits: Limits) -> None:
        self.program, self.limits = program, limits
        self.done: list[CaseOutcome] = []
        self.deaths = 0

    def outcomes(self, pool: WorkerPool) -> list[CaseOutcome]:
        if self.program.tests is not None:
            return self._tests(pool, self.program.tests)
        cases = self.program.cases
        while len(self.done) < len(cases):
            if self.deaths >= DEATHS:
                last = self.done[-1]
                self._rest(last.status, f"not run: {self.deaths} cases ended the program ({last.message})")
                break
            with pool.lend() as worker:
                if self.program.mode == "stdin":
                    while len(self.done) < len(cases) and self.deaths < DEATHS and not worker.soiled:
                        self._stdin(worker, cases[len(self.done)])
                else:
                    self._calls(worker, cases[len(self.done) :])
        for case, outcome in zip(cases, self.done, strict=True):
            if self.program.mode == "calls" and outcome.message.startswith("SyntaxError"):
                _check_expression(case)
        return [timely(outcome, self.limits) for outcome in self.done]

    def _tests(self, pool: WorkerPool, tests: Tests) -> list[CaseOutcome]:
        """Each case's outcome. One that ends the process is left out of the next one, which judges those after it."""
        limits, verdicts = self.limits, dict[int, CaseOutcome]()
        skipped: list[int] = []
        while True:
            with pool.lend() as worker:
                secret = secrets.token_hex(16)
                task = {
                    **{"kind": "tests", "code": self.program.code, "setup": self.program.setup, "tests": tests.code},
                    **{"epilogue": self.program.epilogue, "names": tests.names, "modules": tests.modules},
                    **{"patches": tests.patches, "hooks": tests.hooks, "skip": skipped, "secret": secret},
                    **{"cpu": limits.cpu_seconds, "output": limits.output},
                }
                worker.begin(task, limits, math.ceil(limits.cpu_seconds) * (tests.count + 1) + 1)
                ended, failure, exit_ = self._judged(worker, secret.encode(), tests.count, verdicts)
            if ended is not None and ended.status == "ok":
                rest = CaseOutcome("error", message="the tests did not reach it")
                break
            if ended is not None:
                rest = ended
                if len(verdicts) == tests.count:  # what comes after the last case is part of it
                    verdicts[tests.count - 1] = ended
                break
            at = next((case for case in range(tests.count) if case not in verdicts), tests.count - 1)
            status, message = failure or reason(exit_, 0)
            verdicts[at] = CaseOutcome(status, message=message)
            skipped.append(at)
            rest = CaseOutcome(status, message=f"not run: {len(skipped)} cases ended the program ({message})")
            if len(skipped) == DEATHS or len(verdicts) == tests.count:
                break
        return [verdicts.get(case, rest) for case in range(tests.count)]

    def _judged(
        self, worker: Worker, secret: bytes, count: int, verdicts: dict[int, CaseOutcome]
    ) -> tuple[CaseOutcome | None, Failure | None, Exit]:
        """(how the tests ended as a whole, None if they did not come to their end; why they were ended; how the process
        ended). Verdicts of cases that have none are added."""
        whole: list[CaseOutcome] = []

        def take(heard: Heard) -> bool:
            for kind, body in heard.frames:
                if kind != RESULT or not body.startswith(secret) or whole:
                    raise Malformed("a message that the judge did not write")
                fields = plain_fields(body[len(secret) :], (int, str, str, int, bool, float))
                case, status, message, ran, hooked, used = fields
                if status not in ("ok", "error") or not -1 <= case < count:
                    raise Malformed("no verdict")
                outcome = CaseOutcome(status, [ran, hooked] if status == "ok" else None, message=message)
                if case < 0:
                    whole.append(outcome)
                else:
                    verdicts.setdefault(case, outcome)
                worker.deadline.restart(used)
            return False

        failure, ended = read_messages(worker, self.limits, take)
        assert ended is not None
        return next(iter(whole), None), failure, ended

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
        worker.begin(task, limits, hard, quiet=True)
        loaded = False

        def take(heard: Heard) -> bool:
            nonlocal loaded
            wall = worker.deadline.wall
            if LOADED in heard.output and not loaded:
                loaded = True
                if not heard.frames:  # the first case has its own time; a quick loading counts as part of it
                    worker.deadline.restart(0.0)
            results: list[CaseOutcome] = []
            for kind, body in heard.frames:
                if kind not in (RESULT, FAILED) or len(self.done) + len(results) >= len(self.program.cases):
                    raise Malformed("an unexpected message")
                results.append(case_outcome(body))
                if kind == FAILED:  # the code itself, and every case with it
                    self.done[first:] = []
                    results = results[-1:] * len(cases)
            self.done += [dataclasses.replace(item, wall_seconds=wall / len(results)) for item in results]
            loaded |= bool(results)
            if heard.frames and not heard.malformed:
                worker.deadline.restart(sum(item.cpu_seconds for item in self.done[first:]))
            return False

        failure, ended = read_messages(worker, limits, take)
        assert ended is not None
        complete = len(self.done) == len(self.program.cases)
        if not complete and failure is None and len(self.done) > first and self.done[-1].status == "output":
            self.deaths += 1  # it was ended over that output; the other cases start again
        elif not complete:
            self.deaths += 1
            status, message = failure or reason(ended, hard)
            if loaded:
                cpu = max(0.0, ended.cpu_seconds - sum(item.cpu_seconds for item in self.done[first:]))
                self.done.append(CaseOutcome(status, None, "", message, worker.deadline.wall, cpu))
            else:  # it would go the same way before every case
                self._rest(status, message)
        elif self.done[-1].status == "output":
            self.deaths += 1

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
        worker.begin(task, limits, hard)
        output, verdict, failure, ended = read_result(worker, limits, case_outcome, bounded=True)
        wall = worker.deadline.wall
        text = output.decode("utf-8", "replace")
        status: CaseStatus
        if failure is not None:
            status, message = failure
        elif verdict is not None:
            status, message = verdict.status, verdict.message
        elif ended.status == 0:
            status, message = "ok", ""  # no verdict: it left by os._exit, whose code says how it thinks it went
        else:
            status, message = reason(ended, hard)
        if status in ("timeout", "output", "crash"):
            self.deaths += 1
        value = text if status == "ok" else None
        self.done.append(CaseOutcome(status, value, text, message, wall, ended.cpu_seconds))


def timely(outcome: CaseOutcome, limits: Limits) -> CaseOutcome:
    """The outcome, a time-out where it took more CPU time than allowed: the kernel's own limit counts whole seconds."""
    if outcome.status != "ok" or outcome.cpu_seconds <= limits.cpu_seconds:
        return outcome
    return dataclasses.replace(
        outcome, status="timeout", value=None, message=f"more than {limits.cpu_seconds:g} s of CPU time"
    )


def _check_expression(case: str) -> None:
    try:
        compile(case, "<case>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"a test case is not a Python expression: {case[:200]!r} ({error})") from None


STATUSES: tuple[CaseStatus, ...] = ("ok", "error", "timeout", "memory", "output", "crash")
Failure = tuple[CaseStatus, str]
_TEXT = 4000


class LimitPassed(Exception):
    """The fork broke a limit that its messages show: (status, message)."""


def too_much_output(limits: Limits) -> str:
    return f"more than {limits.output} bytes of output"


def reason(ended: Exit, cpu_limit: float) -> Failure:
    """Of a fork that ended by itself while more was wanted of it. cpu_limit: its hard limit in seconds, 0 for none."""
    code = os.waitstatus_to_exitcode(ended.status)
    if code >= 0:
        return "crash", f"the program ended its process (exit code {code})"
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and 0 < cpu_limit <= ended.cpu_seconds + 0.5):
        return "timeout", "more CPU time than allowed"
    if -code == signal.SIGKILL:
        return "memory", "killed by the kernel, most likely for memory"
    return "crash", f"killed by {signal_name(-code)}"


def read_messages(worker: Worker, limits: Limits, take: Callable[[Heard], bool]) -> tuple[Failure | None, Exit | None]:
    """Pass everything that a fork sends to `take`, until that returns True or the fork ends. A fork that breaks a rule
    is ended: (why it was ended, None if it was not; how it ended, None if it still runs).

    take: may raise Malformed or LimitPassed
    """
    while True:
        failure: Failure | None = None
        heard, done = Heard(), False
        try:
            heard = worker.listen()
            done = take(heard)
            if heard.malformed and not done:
                raise Malformed("bytes that are no message")
            if heard.overfull:
                failure = "output", f"more than {limits.scratch} bytes of files"
            elif heard.exit is None and not done and (over := worker.overdue()):
                failure = "timeout", over
        except Malformed:
            failure = "crash", "what it wrote is not a result"
        except LimitPassed as passed:
            failure = passed.args
        ended = heard.exit
        if failure is not None and ended is None:
            ended = worker.kill()
        if done or ended is not None:
            return failure, ended


def read_result(
    worker: Worker,
    limits: Limits,
    read: Callable[[bytes], Any],
    *,
    bounded: bool,
    host_call: HostCall | None = None,
) -> tuple[bytes, Any, Failure | None, Exit]:
    """(a fork's output up to the limit, what `read` made of its one RESULT or None, why it was ended or None, how it
    ended).

    read: may raise Malformed; bounded: whether more output than allowed ends it, else the rest is dropped
    host_call: answers the fork, whose time it does not take
    """
    output, results = bytearray(), list[Any]()

    def take(heard: Heard) -> bool:
        output.extend(heard.output[: max(0, limits.output + bounded - len(output))])
        for kind, body in heard.frames:
            if kind == HOST_CALL and host_call is not None and not results:
                answer_host_call(worker, body, host_call)
                continue
            if kind != RESULT or results:
                raise Malformed("an unexpected message")
            results.append(read(body))
        if len(output) > limits.output:
            raise LimitPassed("output", too_much_output(limits))
        return False

    failure, ended = read_messages(worker, limits, take)
    assert ended is not None
    return bytes(output[: limits.output]), next(iter(results), None), failure, ended


def answer_host_call(worker: Worker, body: bytes, host_call: HostCall | None) -> None:
    """Make one call of the host for a fork and send the reply; the fork's deadline waits. Raises Malformed."""
    began = time.perf_counter()
    name, positional, named = plain_fields(body, (str, str, str))
    args, kwargs = decode(positional), decode(named)
    if type(args) is not list or type(kwargs) is not dict or not all(type(key) is str for key in kwargs):
        raise Malformed("no arguments")
    reply: dict[str, Any] = {"value": "null", "error": None}
    if host_call is None:
        reply["error"] = "NameError: there is no host_call here"
    else:
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


def case_outcome(body: bytes) -> CaseOutcome:
    """A RESULT frame of a candidate, believed in nothing but its own outputs. Raises Malformed."""
    fields = plain_fields(body, (str, str, str, str, (int, float), (int, float)))
    status, value, stdout, message, wall, cpu = fields
    if status not in STATUSES:
        raise Malformed("no such status")
    return CaseOutcome(
        status,
        decode(value) if status == "ok" else None,
        stdout,
        message[:_TEXT],
        _duration(wall),
        _duration(cpu),
    )


def plain_fields(body: bytes, kinds: tuple[Any, ...]) -> list[Any]:
    """The JSON array in a frame, of exactly these types; Malformed otherwise."""
    fields = decode(body)
    if type(fields) is not list or len(fields) != len(kinds):
        raise Malformed("not the fields of a result")
    for item, kind in zip(fields, kinds, strict=True):
        if not isinstance(item, kind):
            raise Malformed("a field of another type")
    return fields


def _duration(seconds: float) -> float:
    return float(seconds) if 0 <= seconds < 1e6 else 0.0
