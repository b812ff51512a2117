"""What a problem judged by test cases consists of: the nouns between a data set's line and a Score.

Three kinds of case, by who decides:
- CallCase: the sandbox evaluates one expression beside the answer, the parent compares what came back. This is the
  form of almost every published test, `assert f(x) == literal`.
- StdinCase: the answer runs as a program on one input, the parent compares what it printed.
- TestCase: a statement of tests that are code (a property, a loop, a tolerance). It runs as Python runs it, in the
  process of the answer, under a judge that the answer does not reach (problems.sandbox.child.judge).
In the first two the process that holds the answer holds no expected output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from problems.sandbox.contract import Tests

MOST_COMPONENTS = 16
"""Components of the reward vector at most (LiveCodeBench's convention in the paper's experiments)."""


class Unusable(ValueError):
    """A well-formed task that cannot be posed; a reader skips it with a warning."""


Relation = Literal["==", "json", "true", "false", "is"]


@dataclass(frozen=True)
class CallCase:
    """`expression` is evaluated beside the answer; its value must stand in `relation` to `expected`.

    relation: "json" is equality where an outermost tuple counts as a list
    public: the statement shows it, so feedback may show what was expected
    call: how a prompt writes the expression, where that differs
    """

    expression: str
    expected: Any = None
    relation: Relation = "=="
    public: bool = False
    call: str = ""

    @property
    def shown(self) -> str:
        """The call as a prompt writes it."""
        return self.call or self.expression


@dataclass(frozen=True)
class StdinCase:
    """`stdin` is what the program reads, `expected` what it should print."""

    stdin: str
    expected: str
    public: bool = False


@dataclass(frozen=True)
class TestCase:
    """A statement of the task's tests. source: as a prompt writes it"""

    __test__ = False
    source: str
    public: bool = False


Case = CallCase | StdinCase | TestCase


@dataclass(frozen=True)
class Task:
    """One problem as its data set gives it.

    cases: all of its tests; those beyond the reward vector's components share the last one
    text: the task in English, with its signature and public examples
    seed: an answer to start from: the signature and no body
    entry: the function's name; None for a program that reads standard input
    setup: trusted lines that run before the answer (imports, helpers that the data set promises)
    epilogue: trusted lines that run after it in its own process (objects built from the answer's classes)
    tests: the TestCases as one program, None where the cases are data
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
    tests: Tests | None = None
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
        return any(isinstance(case, StdinCase) for case in self.cases)


def public_examples(cases: Sequence[Case], most: int = 2) -> list[str]:
    """The public cases as a statement shows them, at most `most`."""
    shown = []
    for case in cases:
        if not case.public:
            continue
        if isinstance(case, StdinCase):
            shown.append(f"Input:\n{case.stdin.rstrip()}\nOutput:\n{case.expected.rstrip()}")
        elif isinstance(case, TestCase):
            shown.append(case.source)
        elif case.relation in ("true", "false"):
            shown.append(case.shown if case.relation == "true" else f"not {case.shown}")
        else:
            shown.append(f"{case.shown} {'is' if case.relation == 'is' else '=='} {case.expected!r}")
    return shown[:most]


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
