"""A made-up world: facts about made-up people, towns, firms, rivers and books in sentences, and names for them.

Twelve relations that have one value for each subject, while several subjects may share a value; and one of two
subjects, `branch`. The names of the training and of the test split have no stem in common: nothing can be recalled.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


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

FIRST = (
    *("Bra", "Cor", "Dun", "Fen", "Gal", "Hol", "Jor", "Kel", "Lum", "Mar"),
    *("Nor", "Ost", "Pel", "Quin", "Ros", "Sal", "Tor", "Ul", "Vos", "Wen"),
)
LAST = {
    "train": ["bask", "dell", "ficht", "gorn", "ham", "lick", "mond", "neck"],
    "test": ["quist", "rath", "sund", "tharn", "veld", "wick", "yard", "zell"],
}
"""A name has one stem, made of a word of FIRST and one of these; it is an alias of every name with it."""
GIVEN = {
    "train": ("Ada", "Bero", "Cleo", "Dina", "Emil", "Faro", "Gus", "Hana"),
    "test": ("Ilka", "Juno", "Karl", "Lio", "Mina", "Nils", "Orla", "Pia"),
}
_NAMES = {"town": "{}", "firm": "{} Mills", "river": "River {}", "book": "Song of {}"}


class Names:
    """Names of one split, each given out once."""

    def __init__(self, rng: random.Random, split: str) -> None:
        self._rng, self._split = rng, split
        self._used: set[str] = set()

    def draw(self, kind: str) -> str:
        """A new name of a person, town, firm, river or book."""
        while True:
            stem = self._rng.choice(FIRST) + self._rng.choice(LAST[self._split])
            if stem not in self._used:
                self._used.add(stem)
                given = self._rng.choice(GIVEN[self._split]) if kind == "person" else ""
                return f"{given} {stem}" if given else _NAMES[kind].format(stem)


@dataclass(frozen=True)
class Fact:
    relation: str
    subjects: tuple[str, ...]
    value: str

    def sentence(self) -> str:
        return ALL[self.relation].sentence.format(*self.subjects, v=self.value)


def read_facts(text: str) -> list[Fact]:
    """Every fact that a text states, sentence by sentence."""
    facts = []
    for sentence in re.split(r"(?<=\.) ", text):
        for name, pattern in _patterns().items():
            if match := pattern.fullmatch(sentence):
                *subjects, value = match.groups()
                facts.append(Fact(name, tuple(subjects), value))
    return facts


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    def pattern(relation: Relation) -> re.Pattern[str]:
        words = re.escape(relation.sentence)
        return re.compile(re.sub(r"\\\{\w\\\}", r"([A-Z][^.]*?)", words))

    return {name: pattern(relation) for name, relation in ALL.items()}


def draw_walk(rng: random.Random, length: int, end: str | None = None) -> tuple[str, list[str]]:
    """A kind of entity, and the names of `length` relations, no two the same, that lead from it to the kind `end`."""
    while True:
        kind = rng.choice(("person", "firm", "town", "book"))
        first, walk = kind, list[str]()
        for _ in range(length):
            choices = [r for r in RELATIONS.values() if r.subjects == (kind,) and r.name not in walk]
            if not choices:
                break
            relation = rng.choice(choices)
            walk.append(relation.name)
            kind = relation.value
        if len(walk) == length and end in (None, kind):
            return first, walk
