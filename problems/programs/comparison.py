"""Whether what came back is what was expected. Runs in the parent, on plain values that hostile code produced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from problems.programs.cases import CallCase, Case, StdinCase, TestCase
from problems.sandbox.child.wire import Array
from problems.sandbox.contract import CaseOutcome


def call_passes(case: CallCase, value: Any) -> bool:
    """Python's own `==`, `is` or truth, so 1 == True == 1.0 and a tuple is no list."""
    if isinstance(value, Array) and case.relation in ("true", "false"):
        if not value.only():
            return False  # numpy raises: an array of several elements has no truth
        (value,) = value.only()
    if case.relation == "true":
        return bool(value)
    if case.relation == "false":
        return not value
    if case.relation == "is":
        return value is case.expected  # expected is None, True or False: singletons in this process
    if case.relation == "json":
        return same_json(value, case.expected)
    return equal(value, case.expected)


def equal(value: Any, expected: Any) -> bool:
    """`value == expected`; a value too deep to compare is not equal."""
    try:
        return bool(value == expected)
    except RecursionError:
        return False


def same_json(value: Any, expected: Any) -> bool:
    """As `equal`, where an outermost tuple counts as a list, as in LiveCodeBench's harness: JSON has no tuples. A tuple
    further inside is no list there either."""
    return equal(list(value) if isinstance(value, tuple) else value, expected)


def same_output(printed: str, expected: str) -> bool:
    """As LiveCodeBench's harness: line by line, without white space at both ends of all and of each line; lines that
    differ as text are equal if all their tokens are decimal numbers, exactly equal."""
    got, want = _lines(printed), _lines(expected)
    return len(got) == len(want) and all(a == b or _same_numbers(a, b) for a, b in zip(got, want, strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_numbers(got: str, want: str) -> bool:
    try:
        return list(map(Decimal, got.split())) == list(map(Decimal, want.split()))
    except InvalidOperation:  # a word, or a comparison with a signalling nan
        return False


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
