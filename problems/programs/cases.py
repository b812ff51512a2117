"""What a problem judged by test cases consists of: the nouns between a data set's line and a Score.

Three kinds of case, by who decides:
- CallCase: the sandbox evaluates one expression beside the answer, the parent compares what came back. This is the
  form of almost every published test, `assert f(x) == literal`.
- StdinCase: the answer runs as a program on one input, the parent compares what it printed.
- JudgeCase: the test is code of its own (a property, a loop, a tolerance). It runs in a sandbox session of its own
  and reaches the answer, which lives in another session, by messages alone.
In none of them does the process that holds the answer hold an expected output.
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


Relation = Literal["==", "json", "true", "false", "is", "close", "set", "present", "any", "root"]


@dataclass(frozen=True)
class CallCase:
    """`expression` is evaluated beside the answer; its value must stand in `relation` to `expected`.

    relation: "json" is equality where an outermost tuple counts as a list. The others are those of EvalPlus: "close"
        is equality, or floats within `tolerance`; "set" equality as sets; "present" expects True for any value but
        None; "any" passes whatever came back; "root" expects a zero of the polynomial whose coefficients are given
    public: the statement shows it, so feedback may show what was expected
    call: how a prompt writes the expression, where that differs
    accepts: instead of `expected`, expressions that are evaluated beside the task's `oracle`; the value of any one
        of them will do
    """

    expression: str
    expected: Any = None
    relation: Relation = "=="
    public: bool = False
    call: str = ""
    tolerance: float = 0.0
    accepts: tuple[str, ...] = ()

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
class JudgeCase:
    """`function` is a function without arguments in the task's judge code; it passes when it returns true."""

    function: str
    source: str
    public: bool = False


Case = CallCase | StdinCase | JudgeCase


@dataclass(frozen=True)
class Task:
    """One problem as its data set gives it.

    cases: all of its tests; those beyond the reward vector's components share the last one
    text: the task in English, with its signature and public examples
    seed: an answer to start from: the signature and no body
    entry: the function's name; None for a program that reads standard input
    setup: trusted lines that run before the answer (imports, helpers that the data set promises)
    epilogue: trusted lines that run after it in its own process (objects built from the answer's classes)
    judge: module code that the JudgeCases' functions live in
    oracle: trusted code beside which `accepts` of CallCases are evaluated, in a sandbox process of its own
    names: what the judge may call in the answer
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
    judge: str = ""
    oracle: str = ""
    names: tuple[str, ...] = ()
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
        elif isinstance(case, JudgeCase):
            shown.append(case.source)
        elif case.relation in ("true", "false"):
            shown.append(case.shown if case.relation == "true" else f"not {case.shown}")
        else:
            shown.append(f"{case.shown} {'is' if case.relation == 'is' else '=='} {case.expected!r}")
    return shown[:most]


def source_of(value: Any) -> str:
    """A plain value as a Python expression: as `repr`, at any depth. Infinities, nan and the empty set, which have no
    literal, become calls."""
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
