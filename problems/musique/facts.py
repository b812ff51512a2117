"""Made-up facts in sentences, and the solver that reads them back and answers questions from them.

Twelve relations that have one value for each subject, while several subjects share a value, so that no step can be
taken backwards; and one of two subjects, `branch`, which joins two chains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Union


@dataclass(frozen=True)
class Relation:
    """subjects, value: kinds of entities; sentence and phrase: with {0}, {1} for the subjects and {v} for the value"""

    name: str
    subjects: tuple[str, ...]
    value: str
    sentence: str
    phrase: str


_TABLE = (
    ("birthplace", "person", "town", "{0} was born in {v}.", "the town where {0} was born"),
    ("employer", "person", "firm", "{0} works for {v}.", "the firm that {0} works for"),
    ("teacher", "person", "person", "{0} was taught by {v}.", "the person who taught {0}"),
    ("seat", "firm", "town", "{0} has its seat in {v}.", "the town where {0} has its seat"),
    ("founder", "firm", "person", "{0} was founded by {v}.", "the person who founded {0}"),
    ("supplier", "firm", "firm", "{0} buys all its timber from {v}.", "the firm that sells timber to {0}"),
    ("river", "town", "river", "{0} lies on the banks of {v}.", "the river that flows through {0}"),
    ("mayor", "town", "person", "The mayor of {0} is {v}.", "the mayor of {0}"),
    ("source", "river", "town", "{0} rises near {v}.", "the town near which {0} rises"),
    ("author", "book", "person", "{0} was written by {v}.", "the person who wrote {0}"),
    ("publisher", "book", "firm", "{0} was published by {v}.", "the firm that published {0}"),
    ("setting", "book", "town", "{0} is set in {v}.", "the town in which {0} is set"),
)
RELATIONS = {name: Relation(name, (subject,), *rest) for name, subject, *rest in _TABLE}
BRANCH = Relation(
    "branch", ("firm", "town"), "person", "The branch of {0} in {1} is run by {v}.",
    "the person who runs the branch of {0} in {1}",
)  # fmt: skip
ALL: Mapping[str, Relation] = {**RELATIONS, BRANCH.name: BRANCH}


@dataclass(frozen=True)
class Fact:
    relation: str
    subjects: tuple[str, ...]
    value: str

    def sentence(self) -> str:
        return ALL[self.relation].sentence.format(*self.subjects, v=self.value)


Question = Union[str, "Asked"]
"""An entity by its name, or what a relation makes of others."""


@dataclass(frozen=True)
class Asked:
    relation: str
    about: tuple[Question, ...]


def say(question: Question) -> str:
    """As a phrase of English."""
    if isinstance(question, str):
        return question
    return ALL[question.relation].phrase.format(*map(say, question.about))


def read_facts(text: str) -> list[Fact]:
    """Every fact that a text states, sentence by sentence."""
    found = []
    for sentence in re.split(r"(?<=\.) ", text):
        for name, pattern in _patterns().items():
            if match := pattern.fullmatch(sentence):
                *subjects, value = match.groups()
                found.append(Fact(name, tuple(subjects), value))
    return found


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    def pattern(relation: Relation) -> re.Pattern[str]:
        words = re.escape(relation.sentence)
        return re.compile(re.sub(r"\\\{\w\\\}", r"([A-Z][^.]*?)", words))

    return {name: pattern(relation) for name, relation in ALL.items()}


def solve(question: Question, facts: Iterable[Fact]) -> frozenset[str]:
    """Every answer that the facts allow."""
    known = list(facts)

    def answers(asked: Question) -> frozenset[str]:
        if isinstance(asked, str):
            return frozenset((asked,))
        subjects = set(product(*map(answers, asked.about)))
        return frozenset(f.value for f in known if f.relation == asked.relation and f.subjects in subjects)

    return answers(question)
