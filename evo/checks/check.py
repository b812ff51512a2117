"""All checks of one problem, in the order of a report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from evo.checks.cheats import check_cheats
from evo.checks.soundness import (
    check_contract,
    check_cost,
    check_determinism,
    check_objectives,
    check_seed,
    check_steps,
    check_trivial,
    check_values,
)
from evo.checks.subject import EXPLOITED, CheckReport, Finding, Level, Subject
from problems.contract import Problem
from problems.sandbox.contract import Mode


def check_problem(problem: Problem, *, sandbox: Mode, seed: int = 0, mutants: int = 64) -> CheckReport:
    """Every check of one problem.

    mutants: the number for the checks of objectives
    Raises errors that concern more than this problem (SandboxUnavailable, BadInput).
    """
    subject = Subject(problem, seed, mutants)
    began = time.monotonic()
    findings = ranked(_findings(subject, sandbox))
    return CheckReport(problem.name, findings, len(subject.asked), time.monotonic() - began)


def _findings(subject: Subject, sandbox: Mode) -> Iterator[Finding]:
    first = check_seed(subject)
    yield first
    if first.level == "finding":
        return  # without a scored seed no other check is possible
    yield check_contract(subject)
    yield from check_values(subject)
    yield check_determinism(subject, sandbox)
    yield check_cost(subject)
    yield from check_objectives(subject)
    yield check_trivial(subject)
    yield check_steps(subject)
    yield from check_cheats(subject)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first: faults before notes; wrong scores before what only an answer meets that tries to cheat."""
    levels: tuple[Level, ...] = ("finding", "note", "skipped", "ok")
    return tuple(sorted(findings, key=lambda one: (levels.index(one.level), one.check in EXPLOITED)))
