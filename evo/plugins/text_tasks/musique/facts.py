"""Questions over made-up facts (evo.plugins.text_tasks.world): written, read back, and answered by a solver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Union

from evo.plugins.text_tasks.world import ALL, Fact

_ASKED = re.compile(r"(?:Who|What) is (.+)\?")
_NAME = re.compile(r"[A-Z]\w*(?: (?:of|[A-Z]\w*))*")


Question = Union[str, "Lookup"]
"""An entity by its name, or the result of a relation on others."""


@dataclass(frozen=True)
class Lookup:
    relation: str
    about: tuple[Question, ...]


def say(question: Question) -> str:
    """The term as an English phrase."""
    if isinstance(question, str):
        return question
    return ALL[question.relation].phrase.format(*map(say, question.about))


def read_question(text: str) -> Question:
    """The question that `say` puts within "Who is ...?" or "What is ...?". Raises ValueError if it is none."""
    matched = _ASKED.fullmatch(text.strip())
    question = _read_phrase(matched[1]) if matched else None
    if question is None:
        raise ValueError(f"no question over relations that are known: {text[:80]!r}")
    return question


def _read_phrase(phrase: str) -> Question | None:
    if _NAME.fullmatch(phrase):
        return phrase
    for relation in ALL.values():
        begin, *rest = re.split(r"\{\d\}", relation.phrase)
        if not (phrase.startswith(begin) and phrase.endswith(rest[-1])):
            continue
        inner = phrase[len(begin) : len(phrase) - len(rest[-1])]
        for parts in _cuts(inner, rest[:-1]):
            about = [_read_phrase(part) for part in parts]
            if all(part is not None for part in about):
                return Lookup(relation.name, tuple(part for part in about if part is not None))
    return None


def _cuts(text: str, between: Sequence[str]) -> Iterator[list[str]]:
    """Every way to cut a text at these words, each once."""
    if not between:
        yield [text]
        return
    for place in range(len(text)):
        if text.startswith(between[0], place):
            yield from ([text[:place], *rest] for rest in _cuts(text[place + len(between[0]) :], between[1:]))


def steps_of(question: Question) -> list[str]:
    """Its names and relations in the order of its steps, innermost first: a relation follows its subject."""
    if isinstance(question, str):
        return [question]
    return [*(word for part in question.about for word in steps_of(part)), question.relation]


def solve(question: Question, facts: Iterable[Fact]) -> frozenset[str]:
    """Every answer that the facts allow."""
    known = list(facts)

    def answers(asked: Question) -> frozenset[str]:
        if isinstance(asked, str):
            return frozenset((asked,))
        subjects = set(product(*map(answers, asked.about)))
        return frozenset(f.value for f in known if f.relation == asked.relation and f.subjects in subjects)

    return answers(question)
