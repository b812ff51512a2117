"""Does the problem open and score its seed, and does every answer get a score of finite numbers with all names?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from evo.checks.finding import Finding, faulty, note, ok
from evo.checks.subject import Outcome, Subject

AWKWARD = (
    "",
    " \n",
    "\0",
    "\ud800",
    "é😀",
    "0",
    "nan",
    "inf",
    "-1",
    "1e999",
    "[]",
    "def f(:",
    "```python\nx = 1\n```",
    "x" * 10_000,
)
"""Answers as models write them too: nothing, half a character, numbers that are none, half a program, noise."""
_UNMEASURED = "not measured, so counted 0"


def check_seed(subject: Subject) -> Finding:
    """Opened, and its seed scored."""
    problem = subject.problem
    if problem.fault is not None:
        return faulty("seed", f"it cannot be scored: {' '.join(str(problem.fault).split())}")
    outcome = subject.ask_seed()
    if outcome.fault:
        return faulty("seed", f"the scorer fails on the seed: {outcome.fault}")
    assert outcome.score is not None
    named = dict(zip(problem.objectives, outcome.score.rewards, strict=True))
    summary = ", ".join(f"{name} {value:.4g}" for name, value in list(named.items())[:6])
    if outcome.score.error is not None:
        empty = "there is no seed" if not subject.seed_answer else "the seed itself is an answer at fault"
        return note("seed", f"{empty}: {outcome.score.error}", fitness=outcome.fitness, rewards=named)
    return ok("seed", f"fitness {outcome.fitness:.4g} ({summary})", fitness=outcome.fitness, rewards=named)


def check_values(subject: Subject) -> Iterator[Finding]:
    """Faults of the scorer over mutants and awkward answers, metrics that are missing, numbers below zero."""
    outcomes = [*subject.mutants, *subject.ask_all(AWKWARD)]
    faults = [outcome for outcome in outcomes if outcome.fault]
    if faults:
        kinds = Counter(outcome.fault for outcome in faults).most_common(3)
        summary = (
            f"the scorer fails on {len(faults)} of {len(outcomes)} answers; each is an answer's chance to be unfair"
        )
        lines = [f"{count} times: {kind[:300]}" for kind, count in kinds]
        lines.append(f"for example on the answer {_short(faults[0])}")
        yield faulty("values", summary, lines, faults=len(faults), answers=len(outcomes))
    else:
        summary = f"every one of {len(outcomes)} answers gets finite numbers by all names"
        yield ok("values", summary, faults=0, answers=len(outcomes))
    valid = [outcome for outcome in subject.asked if outcome.valid and outcome.score is not None]
    missing = sum(_UNMEASURED in outcome.score.feedback for outcome in valid if outcome.score is not None)
    if missing:
        yield note("missing", f"{missing} of {len(valid)} valid answers lack a metric, which counts 0")
    yield _below_zero(subject, valid)


def _below_zero(subject: Subject, valid: list[Outcome]) -> Finding:
    """An answer at fault has zeros: below them, failing pays."""
    names = (*subject.problem.objectives, "fitness")
    rows = [(*outcome.score.rewards, outcome.score.fitness) for outcome in valid if outcome.score is not None]
    low = {name: min(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)} if rows else {}
    negative = {name: value for name, value in low.items() if value < 0}
    if not negative:
        return ok("negative", f"nothing is below 0, the score of an answer at fault ({len(rows)} valid answers)")
    lines = [f"{name}: down to {value:.4g}" for name, value in negative.items()]
    return faulty("negative", "some valid answers score below 0, the score of an answer at fault", lines)


def _short(outcome: Outcome) -> str:
    text = repr(outcome.answer)
    return text if len(text) < 120 else f"{text[:110]}... ({len(outcome.answer)} characters)"
