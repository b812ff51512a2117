"""What a problem judged by test cases consists of: the nouns between a data set's line and a Score.

Two kinds of case:
- a call: the sandbox evaluates one expression beside the answer, the parent compares what came back. Almost every
  published test has this form, `assert f(x) == literal`.
- standard input: the answer runs as a program on one input, the parent compares what it printed.
The process that holds the answer holds no expected output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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
        "==" where an outermost tuple counts as a list; "printed" compares output; "isclose" is math.isclose, and
        "allclose" EvalPlus' comparison, with `tolerance`
    public: the statement shows it, so feedback may show what was expected
    written: how a prompt writes the expression, where that differs
    whole: how a prompt writes all of the test, where that differs
    tolerance: relative, absolute
    """

    source: str
    expected: Any = None
    rule: Literal["==", "is", "true", "json", "printed", "isclose", "allclose"] = "=="
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
    extra: dict[str, Any] = field(default_factory=dict)

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
    """A plain value as a Python expression: as `repr`, at any depth. Infinities, nan and the empty set, which have no
    literal, become calls."""
    if type(value) is int and value.bit_length() > 14_000:
        return hex(value)  # which has no limit on its digits
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, complex):
        return f"complex({source_of(value.real)}, {source_of(value.imag)})"
    if isinstance(value, list):
        return f"[{', '.join(map(source_of, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(source_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, set | frozenset):
        inner = ", ".join(sorted(map(source_of, value)))  # sorted: one set, one text
        return f"{type(value).__name__}([{inner}])"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{source_of(key)}: {source_of(item)}" for key, item in value.items()) + "}"
    return repr(value)
