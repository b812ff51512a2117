"""The wordings that were tried for asking an ordinary model for m programs: what won is the product's, the others lose.

Each is a system message and a request put where the product's stand; task, parent and feedback are the product's own,
but for `early`, the wording that the product had first, which also showed scores below a program instead of above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evo.prompts.chat import ChatFormat
from islands.types import Candidate
from vpo.chain.wording import layout

_EARLY_SYSTEM = (
    "You take part in an evolutionary search. You are shown a task, an earlier answer with its scores, and other "
    "answers found so far. You write answers that score higher, or score differently where the objectives conflict."
)
_EARLY_SPREAD = (
    "Make the {m} answers spread over the trade-offs: each should be the best of the {m} at something, so where the "
    "objectives pull apart let a different one give way each time. An answer that repeats another is thrown away."
)
_SYSTEM = (
    "You write better answers to a task than those found so far. Keep exactly to the layout that is asked for and "
    "write nothing besides."
)
_PLAIN_SYSTEM = "You are an expert programmer. You reply in exactly the layout that is asked for, with code alone."
_IDEAS = (
    "the most direct way",
    "a different algorithm",
    "with the standard library",
    "as short as possible",
    "careful with special cases",
)
_ALONE = (
    "Every block must be complete and work alone. No tests, no examples, no explanations. No two programs may be the "
    "same."
)
_ONE = (
    "Answer with one complete program in a single code block that starts with ```python and ends with ```. No tests, "
    "no examples, no explanations."
)
_SHOT = (
    "def total(n):\n    return sum(range(1, n + 1))",
    "def total(n):\n    return n * (n + 1) // 2",
    "def total(n):\n    result = 0\n    for i in range(1, n + 1):\n        result += i\n    return result",
    "def total(n):\n    return n + total(n - 1) if n > 0 else 0",
    "from functools import reduce\n\ndef total(n):\n    return reduce(lambda a, b: a + b, range(n + 1), 0)",
)


@dataclass(frozen=True)
class Wording:
    """None keeps the product's. request: (m, the program that the problem starts from) -> the last section."""

    system: str | None = None
    request: Callable[[int, str], str] | None = None
    scores_last: bool = False


def _early(m: int, seed: str) -> str:
    if m == 1:
        return (
            "Answer with one complete program in a single code block that starts with ```python and ends with ```. "
            "Leave out tests and usage examples."
        )
    layout = "\n---\n".join(f"```python\n# program {i}, complete\n```" for i in range(1, m + 1))
    return (
        f"Answer with {m} different complete programs in exactly this layout:\n\n{layout}\n\n"
        "Never put two programs into one block: every block must work alone and use the names that the task asks for. "
        "Leave out tests, usage examples and explanations. " + _EARLY_SPREAD.format(m=m)
    )


def _layout_first(m: int, seed: str) -> str:
    """The layout in the middle, what to heed after it."""
    if m == 1:
        return (
            f"Answer with one complete program in a single code block:\n\n{layout(1, seed)}\n\nNo tests, no examples, "
            "no explanations."
        )
    return (
        f"Write {m} different programs for the task in this layout:\n\n{layout(m, seed)}\n\nEvery block must be "
        f"complete and work alone. No tests, no examples, no explanations. {_EARLY_SPREAD.format(m=m)}"
    )


def _onefence(m: int, seed: str) -> str:
    """All programs in one block under numbered comments."""
    if m == 1:
        return _ONE
    layout = "\n\n".join(f"# Program {i}: {_idea(i)}\n..." for i in range(1, m + 1))
    return (
        f"Write {m} different programs for the task, all in one code block, in this layout:\n\n```python\n{layout}\n"
        "```\n\nEvery program must be complete and work alone. No tests, no examples, no explanations. No two programs "
        "may be the same."
    )


def _oneshot(m: int, seed: str) -> str:
    """The layout shown filled in, for another task."""
    if m == 1:
        return _ONE
    shot = "\n\n".join(f"## Program {i}\n```python\n{_SHOT[(i - 1) % len(_SHOT)]}\n```" for i in range(1, m + 1))
    return (
        f'Write {m} different programs for the task, as in this example of another task ("total of 1 to n"):\n\n{shot}'
        f"\n\n{_ALONE} Now write {m} programs for the task above."
    )


def _begin(m: int, seed: str) -> str:
    """What to write and why first, the layout last, where its beginning is the reply's."""
    if m == 1:
        return (
            "Write one complete program. No tests, no examples, no explanations: the reply is just\n\n"
            f"{layout(1, seed)}"
        )
    return (
        f"Write {m} different programs for the task. {_EARLY_SPREAD.format(m=m)} Every block must be complete and work "
        f"alone. No tests, no examples, no explanations: the reply is just\n\n{layout(m, seed)}"
    )


def _idea(i: int) -> str:
    return _IDEAS[(i - 1) % len(_IDEAS)]


WORDINGS: dict[str, Wording] = {
    "product": Wording(),
    "early": Wording(_EARLY_SYSTEM, _early, scores_last=True),
    "layout": Wording(_SYSTEM, _layout_first),
    "begin": Wording(_PLAIN_SYSTEM, _begin),
    "onefence": Wording(_SYSTEM, _onefence),
    "oneshot": Wording(_SYSTEM, _oneshot),
}


class _ScoresLast(ChatFormat):
    def describe(self, candidate: Candidate, feedback: bool = True) -> str:
        above, fence, program = super().describe(candidate, feedback).partition("```python")
        scores, _, told = above.partition("\n")
        return "\n".join(part for part in (fence + program, scores, told.strip("\n")) if part)


def worded(problem: Any, config: Any, answers: int, name: str) -> ChatFormat:
    """The product's style with its system message and request replaced by those of WORDINGS[name]."""
    wording = WORDINGS[name]
    style = (_ScoresLast if wording.scores_last else ChatFormat)(problem, config, answers)
    if wording.system is not None:
        style.system = wording.system
    if wording.request is not None:
        style.request = "# What to write\n" + wording.request(answers, problem.seed_answer())
    return style
