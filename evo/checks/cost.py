"""What an evaluation takes, and whether the scorer's own time-out fits it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from evo.checks.determinism import RepeatedScores
from evo.checks.finding import Finding, found, note, ok
from evo.checks.subject import Subject

TIGHT, LOOSE = 0.5, 200.0
"""A time-out of less than twice what the seed takes; one of so many times what anything took."""
LONG = 10.0
"""Seconds below which a loose time-out costs little."""
LARGE = 2 << 30


def check_cost(subject: Subject, repeats: RepeatedScores) -> Iterator[Finding]:
    """Seconds and memory."""
    valid = [one.seconds for one in subject.asked if one.score is not None and one.score.error is None]
    seconds = valid or [one.seconds for one in subject.asked]
    typical, longest, timeout = median(seconds), max(seconds), subject.problem.timeout
    figures: dict[str, Any] = {"median": typical, "longest": longest, "timeout": timeout}
    told = f"{_time(typical)} an answer, {_time(longest)} at most"
    if timeout is None:
        yield ok("time", f"{told}; there is no time-out", **figures)
    elif typical > TIGHT * timeout:
        yield found("time", f"{told}, under a time-out of {timeout:g} s: an answer a little slower fails", **figures)
    elif timeout > LONG and timeout > LOOSE * longest:
        yield note(
            "time",
            f"{told}; an endless answer takes the time-out, {timeout:g} s, as long as {timeout / longest:,.0f} others",
            **figures,
        )
    else:
        yield ok("time", f"{told}; time-out {timeout:g} s", **figures)
    if repeats.memory:
        told = f"{repeats.memory / (1 << 20):,.0f} MiB in its largest process"
        finding = found if repeats.memory > LARGE else ok
        yield finding("memory", told, bytes=repeats.memory)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
