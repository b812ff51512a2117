"""Whether what came back is what was expected. Runs in the parent, on plain values that hostile code produced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from problems.programs.cases import Case
from problems.sandbox.contract import CaseOutcome


def passes(case: Case, outcome: CaseOutcome) -> bool:
    """Python's own `==` or `is`, so 1 == True == 1.0 and a tuple is no list, except that in LiveCodeBench's harness an
    outermost tuple counts as one: JSON has no tuples. A value too deep to compare is not equal. With a tolerance,
    math.isclose or EvalPlus' rule."""
    value = outcome.value
    if outcome.status != "ok":
        return False
    if case.rule == "printed":
        return isinstance(value, str) and same_output(value, case.expected)
    if case.rule == "is":
        return value is case.expected  # expected is None, True or False: singletons in this process
    relative, absolute = case.tolerance
    try:
        if case.rule == "isclose":
            return math.isclose(value, case.expected, rel_tol=relative, abs_tol=absolute)
        same = bool((list(value) if case.rule == "json" and isinstance(value, tuple) else value) == case.expected)
        if case.rule != "allclose" or same:
            return same
        absolute = absolute or (1e-6 if _is_floats(case.expected) else 0.0)
        return bool(absolute) and type(value) is type(case.expected) and _near(value, case.expected, relative, absolute)
    except (RecursionError, TypeError, ValueError, OverflowError):
        return False


def _is_floats(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list | tuple) and all(isinstance(x, float) for x in value))


def _near(value: Any, expected: Any, relative: float, absolute: float) -> bool:
    """numpy's allclose, of lists and tuples of the same lengths."""
    if isinstance(expected, list | tuple):
        pairs = zip(value, expected, strict=True)
        return all(_near(item, other, relative, absolute) for item, other in pairs)
    near = math.isfinite(expected) and abs(value - expected) <= absolute + relative * abs(expected)
    return bool(value == expected or near)


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


def feedback(cases: Sequence[Case], outcomes: Sequence[CaseOutcome]) -> str:
    """The text for a prompt; "" if every case passed."""
    numbered = enumerate(zip(cases, outcomes, strict=True), 1)
    failing = [(number, case, outcome) for number, (case, outcome) in numbered if not passes(case, outcome)]
    if not failing:
        return ""
    lines = [f"{len(cases) - len(failing)} of {len(cases)} cases pass. Failing:"]
    lines += [f"- case {number}: {_described(case, outcome)}" for number, case, outcome in failing[:MOST_SHOWN]]
    if len(failing) > MOST_SHOWN:
        rest = [str(number) for number, *_ in failing[MOST_SHOWN:]]
        more = f" and {len(rest) - MOST_NUMBERED} more" if len(rest) > MOST_NUMBERED else ""
        lines.append(f"- also failing: {', '.join(rest[:MOST_NUMBERED])}{more}")
    return "\n".join(lines)


def _described(case: Case, outcome: CaseOutcome) -> str:
    given = f"input {show_value(case.source)}" if case.rule == "printed" else clip(case.shown)
    if outcome.status != "ok":
        return f"{given} failed: {clip(outcome.message) or outcome.status}"
    verb = {"printed": "printed", "true": "is"}.get(case.rule, "returned")
    wanted = f"; expected {show_value(case.expected)}" if case.public else ", which is wrong"
    return f"{given} {verb} {show_value(outcome.value)}{wanted}"


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
