"""The time and memory of an evaluation, and whether the scorer's time-out fits them."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from evo.checks.determinism import RepeatedScores
from evo.checks.finding import Finding, faulty, note, ok
from evo.checks.subject import Subject

TIGHT, LOOSE = 0.5, 200.0
"""A time-out below twice the seed's time is a finding; so is one far above the longest evaluation."""
LONG = 10.0
"""Seconds below which a loose time-out costs little."""
LARGE = 2 << 30


def check_cost(subject: Subject, repeats: RepeatedScores) -> Iterator[Finding]:
    """Seconds and memory."""
    valid = [outcome.seconds for outcome in subject.asked if outcome.score is not None and outcome.score.error is None]
    seconds = valid or [outcome.seconds for outcome in subject.asked]
    typical, longest, timeout = median(seconds), max(seconds), subject.problem.timeout
    figures: dict[str, Any] = {"median": typical, "longest": longest, "timeout": timeout}
    summary = f"{_time(typical)} an answer, {_time(longest)} at most"
    if timeout is None:
        yield ok("time", f"{summary}; there is no time-out", **figures)
    elif typical > TIGHT * timeout:
        yield faulty(
            "time", f"{summary}, under a time-out of {timeout:g} s: an answer a little slower fails", **figures
        )
    elif timeout > LONG and timeout > LOOSE * longest:
        yield note(
            "time",
            f"{summary}; an endless answer takes {timeout:g} s, as long as {timeout / longest:,.0f} others",
            **figures,
        )
    else:
        yield ok("time", f"{summary}; time-out {timeout:g} s", **figures)
    if repeats.memory:
        summary = f"{repeats.memory / (1 << 20):,.0f} MiB in its largest process"
        finding = faulty if repeats.memory > LARGE else ok
        yield finding("memory", summary, bytes=repeats.memory)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
