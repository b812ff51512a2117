"""A problem judged by test cases: the nouns between a data set's line and a Score, and whether what came back is what
was expected, which the parent decides on plain values that hostile code produced.

Two kinds of case:
- a call: the sandbox evaluates one expression in the answer's process, the parent compares what came back. Almost every
  published test has this form, `assert f(x) == literal`.
- standard input: the answer runs as a program on one input, the parent compares what it printed.
The process that holds the answer holds no expected output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from problems.sandbox.contract import CaseOutcome

MOST_COMPONENTS = 16
"""Components of the reward vector at most (LiveCodeBench's convention in the paper's experiments)."""


class Unusable(ValueError):
    """A well-formed task that cannot be posed; a reader skips it with a warning."""


@dataclass(frozen=True)
class Case:
    """One test.

    source: an expression, or a standard input
    expected: the value of the expression, or what should be printed
    rule: "==" and "is" compare a value; "true" wants the expression to be True, and a prompt shows it alone; "json" is
        "==" where an outermost tuple counts as a list; "printed" compares output; "isclose" is math.isclose
        with `tolerance`
    public: the statement shows it, so feedback may show what was expected
    written: how a prompt writes the expression, where that differs
    whole: how a prompt writes all of the test, where that differs
    tolerance: relative, absolute
    """

    source: str
    expected: Any = None
    rule: Literal["==", "is", "true", "json", "printed", "isclose"] = "=="
    public: bool = False
    written: str = ""
    whole: str = ""
    tolerance: tuple[float, float] = (0.0, 0.0)

    @property
    def shown(self) -> str:
        """The call or the input as a prompt writes it."""
        return self.written or self.source

    @property
    def example(self) -> str:
        """The whole case as a statement shows it."""
        if self.rule == "printed":
            return f"Input:\n{self.source.rstrip()}\nOutput:\n{self.expected.rstrip()}"
        if self.rule == "true":
            return self.shown
        return self.whole or f"{self.shown} {'is' if self.rule == 'is' else '=='} {self.expected!r}"


@dataclass(frozen=True)
class Task:
    """One problem as its data set gives it.

    cases: all of its tests; those beyond the reward vector's components share the last one
    text: the task in English, with its signature and public examples
    seed: an answer to start from: the signature and no body
    entry: the function's name; None for a program that reads standard input
    setup: trusted lines that run before the answer (imports, helpers that the data set promises)
    epilogue: trusted lines that run after it in its own process (objects built from the answer's classes)
    seconds: CPU time per case
    reference: a full solution where the data set has one; never part of a prompt
    fingerprint: of the data set's line (problems.fingerprint)
    """

    text: str
    seed: str
    cases: tuple[Case, ...]
    entry: str | None = None
    setup: str = ""
    epilogue: str = ""
    seconds: float = 6.0
    reference: str | None = None
    fingerprint: str = ""

    @property
    def components(self) -> int:
        """Length of the reward vector: one component per case; the last holds all further cases together."""
        return min(len(self.cases), MOST_COMPONENTS)

    @property
    def stdin(self) -> bool:
        """Whether the answer is a program rather than a function."""
        return any(case.rule == "printed" for case in self.cases)


def public_examples(cases: Sequence[Case], most: int = 2) -> list[str]:
    """The public cases as a statement shows them, at most `most`."""
    return [case.example for case in cases if case.public][:most]


def source_of(value: Any) -> str:
    """A value of JSON as a Python expression: as `repr`, but infinities and nan, which have no literal, are calls."""
    if type(value) is int and value.bit_length() > 14_000:
        return hex(value)  # which has no limit on its digits
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list):
        return f"[{', '.join(map(source_of, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source_of(key)}: {source_of(item)}" for key, item in value.items()) + "}"
    return repr(value)


# -- comparison --------------------------------------------------------------------------------------------------------


def passes(case: Case, outcome: CaseOutcome) -> bool:
    """Python's own `==` or `is`, so 1 == True == 1.0 and a tuple is no list, except that in LiveCodeBench's harness an
    outermost tuple counts as one: JSON has no tuples. A value too deep to compare is not equal."""
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
        return bool((list(value) if case.rule == "json" and isinstance(value, tuple) else value) == case.expected)
    except (RecursionError, TypeError, ValueError, OverflowError):
        return False


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
_LONGEST = 200  # characters of one value


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
    given = f"input {show_value(case.source)}" if case.rule == "printed" else clip_text(case.shown)
    if outcome.status != "ok":
        return f"{given} failed: {clip_text(outcome.message) or outcome.status}"
    verb = {"printed": "printed", "true": "is"}.get(case.rule, "returned")
    wanted = f"; expected {show_value(case.expected)}" if case.public else ", which is wrong"
    return f"{given} {verb} {show_value(outcome.value)}{wanted}"


def show_value(value: Any, most: int = _LONGEST) -> str:
    """A value's repr, cut in the middle. Never raises, whatever hostile code returned."""
    try:
        return clip_text(repr(value), most)
    except (ValueError, RecursionError):  # an int too long to print, nesting too deep
        return f"<{type(value).__name__} too large to show>"


def clip_text(text: str, most: int = _LONGEST) -> str:
    """The text, cut in the middle to at most `most` characters."""
    if len(text) <= most:
        return text
    half = (most - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
