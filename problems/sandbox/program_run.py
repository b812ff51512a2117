"""One program on its way through its cases: the requests to workers, and how far their answers are believed."""

from __future__ import annotations

import dataclasses
import math
import secrets

from problems.sandbox import result
from problems.sandbox.child.wire import FAILED, LOADED, RESULT, Malformed
from problems.sandbox.contract import CaseOutcome, CaseStatus, Limits, Program, Tests
from problems.sandbox.worker import Exit, Heard, Worker
from problems.sandbox.worker_pool import WorkerPool, outlive_workers

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
            status, message = failure or result.reason(exit_, 0)
            verdicts[at] = CaseOutcome(status, message=message)
            skipped.append(at)
            rest = CaseOutcome(status, message=f"not run: {len(skipped)} cases ended the program ({message})")
            if len(skipped) == DEATHS or len(verdicts) == tests.count:
                break
        return [verdicts.get(case, rest) for case in range(tests.count)]

    def _judged(
        self, worker: Worker, secret: bytes, count: int, verdicts: dict[int, CaseOutcome]
    ) -> tuple[CaseOutcome | None, result.Failure | None, Exit]:
        """(how the tests ended as a whole, None if they did not come to their end; why they were ended; how the process
        ended). Verdicts of cases that have none are added."""
        whole: list[CaseOutcome] = []

        def take(heard: Heard) -> bool:
            for kind, body in heard.frames:
                if kind != RESULT or not body.startswith(secret) or whole:
                    raise Malformed("a message that the judge did not write")
                fields = result.plain_fields(body[len(secret) :], (int, str, str, int, bool, float))
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

        failure, ended = result.read_messages(worker, self.limits, take)
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
                results.append(result.case_outcome(body))
                if kind == FAILED:  # the code itself, and every case with it
                    self.done[first:] = []
                    results = results[-1:] * len(cases)
            self.done += share_interval(results, wall)
            loaded |= bool(results)
            if heard.frames and not heard.malformed:
                worker.deadline.restart(sum(item.cpu_seconds for item in self.done[first:]))
            return False

        failure, ended = result.read_messages(worker, limits, take)
        assert ended is not None
        complete = len(self.done) == len(self.program.cases)
        self.done[first:] = bound_cpu(self.done[first:], ended)
        if not complete and failure is None and len(self.done) > first and self.done[-1].status == "output":
            self.deaths += 1  # it was ended over that output; the other cases start again
        elif not complete:
            self.deaths += 1
            status, message = failure or result.reason(ended, hard)
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
        output, verdict, failure, ended = result.read_result(worker, limits, result.case_outcome, bounded=True)
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
            status, message = result.reason(ended, hard)
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


def share_interval(results: list[CaseOutcome], interval: float) -> list[CaseOutcome]:
    """Results that arrived together share the parent's interval in the proportion that they claim."""
    claimed = sum(item.wall_seconds for item in results)
    return [
        dataclasses.replace(
            item,
            wall_seconds=interval * (item.wall_seconds / claimed if claimed > 0 else 1 / len(results)),
        )
        for item in results
    ]


def bound_cpu(results: list[CaseOutcome], ended: Exit) -> list[CaseOutcome]:
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
