"""All checks of one problem, in the order of a report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from evo.checks.cheats import check_cheats
from evo.checks.determinism import check_cost, check_determinism
from evo.checks.objectives import check_objectives, check_steps
from evo.checks.soundness import check_comment, check_seed, check_trivial, check_values
from evo.checks.subject import EXPLOITED, CheckReport, Finding, Level, Subject
from problems.contract import Problem

WORST = (
    *("seed", "values", "deterministic", "nan", "raises", "claim", "direction", "negative", "trivial", "cut"),
    *("steps", "constant", "scale", "time", "collinear", "comment"),
    *EXPLOITED,
)
"""Checks, the worst first: wrong scores, then scores that say little, then what takes a model that tries to cheat."""


def check_problem(problem: Problem, *, sandbox: str, seed: int = 0, mutants: int = 64) -> CheckReport:
    """Every check of one problem.

    mutants: the number for the checks of objectives
    Raises errors that concern more than this problem (SandboxUnavailable, BadInput).
    """
    subject = Subject(problem, seed, mutants)
    began = time.monotonic()
    findings = ranked(_findings(subject, sandbox))
    return CheckReport(problem.name, findings, len(subject.asked), time.monotonic() - began)


def _findings(subject: Subject, sandbox: str) -> Iterator[Finding]:
    first = check_seed(subject)
    yield first
    if first.level == "finding":
        return  # without a scored seed no other check is possible
    yield from check_values(subject)
    yield check_determinism(subject, sandbox)
    yield check_cost(subject)
    yield from check_objectives(subject)
    yield check_trivial(subject)
    yield check_steps(subject)
    yield check_comment(subject)
    yield from check_cheats(subject)


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first: wrong scores before scores that depend on luck, those before what a model could exploit."""
    levels: tuple[Level, ...] = ("finding", "note", "skipped", "ok")
    places = {check: place for place, check in enumerate(WORST)}
    return tuple(sorted(findings, key=lambda f: (levels.index(f.level), places.get(f.check, len(WORST)))))
