"""The words of `musique-facts`: paragraphs by their number, relations, and the stems of made-up names."""

from __future__ import annotations

from functools import cache

from evo.plugins.text_tasks.world import ALL, FIRST, LAST
from vpo.embedded.words import MOST_ANSWERS, PAD, PARENT, STOP, UNKNOWN

MOST_PARAGRAPHS = 20
MOST_CITED = 4
PARAGRAPHS = tuple(f"p{number}" for number in range(MOST_PARAGRAPHS))
QUESTION, OF, ANSWER = "q", ":", ">"
RIGHT, WRONG = "ok", "no"
SHARES = ("a0", "a1", "a2")
"""How much of a parent's answer is right: nothing, a part, all."""
STEMS = tuple(first + last for lasts in LAST.values() for first in FIRST for last in lasts)
"""The stems of the names of both splits: a name carries no fact, and one that training never saw could not be
written."""
WORDS = (
    *(PAD, UNKNOWN, STOP, QUESTION, OF, ANSWER, PARENT, RIGHT, WRONG, *SHARES),
    *(f"m{answers}" for answers in range(1, MOST_ANSWERS + 1)),
    *PARAGRAPHS,
    *ALL,
    *STEMS,
)
"""Every token, in the order of its id."""


@cache
def _stems() -> frozenset[str]:
    return frozenset(STEMS)


def stem_of(name: str) -> str | None:
    """The one stem in a name, None if it has none or several."""
    stems = [word for word in name.replace(",", " ").split() if word in _stems()]
    return stems[0] if len(stems) == 1 else None


def most_tokens(answers: int) -> int:
    """Tokens that suffice for a chain of `answers` answers."""
    return answers * (1 + 2 + 3 * MOST_CITED) + 1
