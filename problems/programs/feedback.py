"""What the next prompt may read about an answer's failing cases.

At most the first three failing cases, shortened. A failing case shows its input and what the answer did with it; what
was expected is shown for public cases only, those the statement itself shows. A search that could read every expected
output back would be searching for a table of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from problems.programs.cases import CallCase, Case, StdinCase, TestCase
from problems.sandbox.contract import CaseOutcome

MOST_SHOWN = 3
MOST_NUMBERED = 20
LONGEST = 200  # characters of one value


@dataclass(frozen=True)
class CaseReport:
    """One case of one answer: did it pass, and what came back."""

    case: Case
    passed: bool
    outcome: CaseOutcome


def feedback(reports: Sequence[CaseReport]) -> str:
    """The text for a prompt; "" if every case passed."""
    failing = [(number, report) for number, report in enumerate(reports, 1) if not report.passed]
    if not failing:
        return ""
    lines = [f"{len(reports) - len(failing)} of {len(reports)} cases pass. Failing:"]
    lines += [f"- case {number}: {_described(report)}" for number, report in failing[:MOST_SHOWN]]
    if len(failing) > MOST_SHOWN:
        rest = [str(number) for number, _ in failing[MOST_SHOWN:]]
        more = f" and {len(rest) - MOST_NUMBERED} more" if len(rest) > MOST_NUMBERED else ""
        lines.append(f"- also failing: {', '.join(rest[:MOST_NUMBERED])}{more}")
    return "\n".join(lines)


def _described(report: CaseReport) -> str:
    case, outcome = report.case, report.outcome
    if isinstance(case, TestCase):
        what = f"`{clip(case.source)}` does not hold" if case.public else "a condition on the result does not hold"
        seen, assertion, _ = outcome.message.partition("AssertionError")  # whose text may tell what was expected
        return f"{clip(seen, 2 * LONGEST)}{what}" if assertion else clip(outcome.message, 2 * LONGEST) or outcome.status
    given = clip(case.shown) if isinstance(case, CallCase) else f"input {show_value(case.stdin)}"
    if outcome.status != "ok":
        return f"{given} failed: {clip(outcome.message) or outcome.status}"
    came = f"{given} {'returned' if isinstance(case, CallCase) else 'printed'} {show_value(outcome.value)}"
    if not case.public:
        return f"{came}, which is wrong"
    if isinstance(case, StdinCase):
        return f"{came}; expected {show_value(case.expected)}"
    if case.relation in ("true", "false"):
        return f"{came}; expected a {case.relation} value"
    return f"{came}; expected {show_value(case.expected)}"


def show_value(value: Any, most: int = LONGEST) -> str:
    """A value's repr, cut in the middle. Never raises, whatever hostile code returned."""
    try:
        return clip(repr(value), most)
    except (ValueError, RecursionError):  # an int too long to print, nesting too deep
        return f"<{type(value).__name__} too large to show>"


def clip(text: str, most: int = LONGEST) -> str:
    """The text, cut in the middle to at most `most` characters."""
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
