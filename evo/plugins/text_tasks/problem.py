"""The base class of the text tasks, the fields of a tagged answer, and how texts are compared.

Texts are compared in lower case, without articles (MuSiQue and EUREQA), without punctuation, with white space
collapsed, in this order: the articles go before the punctuation, so that "a-b" loses its "a", unlike in SQuAD's order.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

from problems.contract import Problem
from problems.fingerprint import fingerprint_of
from problems.weights import ALL_REWARDS

TaskRow = Mapping[str, Any]
_THOUGHT = re.compile(r"<(/?)think>")


class TextProblem(Problem):
    """A row of a text task. Subclasses give `objectives`, `statement` and `score`.

    rules: names the reward's rules in the fingerprint; a change of the rules changes it
    """

    answer_format = "tagged"
    inline = True
    execution = "never"
    distinct_rewards = True
    target: float | None = ALL_REWARDS
    rules = ""

    def __init__(self, name: str, row: Mapping[str, Any], where: str, source: str, licence: str) -> None:
        """where: file and row, for messages. Raises BadAddress for a row of another schema."""
        self.name, self.row, self.source, self.licence = name, row, source, licence

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def reference(self) -> str:
        """An answer that earns everything."""
        raise NotImplementedError

    def known_answers(self, seed: int) -> list[str]:
        """The reference."""
        return [self.reference]

    def canonical(self, answer: str) -> str:
        """The answer without its thoughts and without white space around it."""
        return without_thoughts(answer.replace("\r\n", "\n").replace("\r", "\n"))

    def target_under(self, weights: Sequence[float]) -> float:
        """Of an answer that earns everything."""
        return ALL_REWARDS

    def fingerprint(self) -> str:
        """The fingerprint of the row and of the rules."""
        return fingerprint_of(self.rules, self.row)


def sentence(faults: Sequence[str]) -> str:
    """Faults as one sentence; "" for none."""
    text = "; ".join(faults)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def first_field(text: str, name: str, *, any_case: bool = False) -> str | None:
    """The contents of the first closed tag of this name, unchanged; None if there is none."""
    flags = re.IGNORECASE if any_case else re.NOFLAG
    begin = re.compile(re.escape(f"<{name}>"), flags).search(text)
    end = re.compile(re.escape(f"</{name}>"), flags).search(text, begin.end()) if begin else None
    return text[begin.end() : end.start()] if begin and end else None


def without_thoughts(text: str) -> str:
    """The text less its `<think>` blocks; all of it if such a block never ends."""
    kept: list[str] = []
    begin, thinking = 0, False
    for mark in _THOUGHT.finditer(text):
        if mark[1]:
            thinking, begin = False, mark.end()
        elif not thinking:
            kept.append(text[begin : mark.start()])
            thinking, begin = True, mark.start()
    return "".join([*kept, text[begin:]]).strip()


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_text(text: str, *, articles: bool = False, underscores: bool = False) -> str:
    """articles: drop a, an, the; underscores: read them as blanks"""
    text = text.lower()
    if underscores:
        text = text.replace("_", " ")
    if articles:
        text = _ARTICLES.sub(" ", text)
    return " ".join(text.translate(_PUNCTUATION).split())


def token_f1(answered: str, wanted: str, *, articles: bool = False) -> float:
    """F1 of the normalised words, each as often as it occurs; 1 if both have none, 0 if one has none."""
    return multiset_f1(
        normalise_text(answered, articles=articles).split(), normalise_text(wanted, articles=articles).split()
    )


def multiset_f1(answered: Iterable[Hashable], wanted: Iterable[Hashable]) -> float:
    """F1 of two multisets; 1 if both are empty, 0 if exactly one is."""
    have, want = Counter(answered), Counter(wanted)
    if not have or not want:
        return float(not have and not want)
    common = (have & want).total()
    return 2 * common / (have.total() + want.total())


def set_f1(answered: Collection[Hashable], wanted: Collection[Hashable]) -> float:
    """The same of two sets."""
    return multiset_f1(set(answered), set(wanted))
