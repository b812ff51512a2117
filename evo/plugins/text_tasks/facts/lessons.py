"""The lessons of the base policy for questions: drills, and a hasty reader's answers to fresh questions.

A drill has several single steps over the same paragraphs, with right answers: it teaches reading.

The reader goes through the steps in order. Mostly (CARE) it looks the step up; else it takes a similar paragraph, with
the same relation or name, or (GUESS) any: wrong, but plausible. So the base learns the form, to vary, and where to
look; training by reward teaches that looking always pays. With a parent, the reader mostly keeps its right steps and
tries other paragraphs for the rest.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evo.plugins.text_tasks.facts.language import asked, encode_prompt, write_steps
from evo.plugins.text_tasks.facts.words import ANSWER, stem_of
from evo.plugins.text_tasks.musique.facts import steps_of
from evo.plugins.text_tasks.musique.generator import draw_facts
from evo.plugins.text_tasks.world import ALL, Fact
from vpo.embedded.lesson import Lesson
from vpo.embedded.words import STOP

CHAIN_LENGTHS = (1, 2, 3, 4, 5)
CHAIN_WEIGHTS = (0.20, 0.05, 0.40, 0.05, 0.30)
CARE, GUESS = 0.3, 0.25
"""How often a step is looked up, and how often any paragraph is taken; else one that looks like it."""
WITH_PARENT = 0.3
KEEP = 0.9
"""How often a right step of the parent is kept."""
LEVELS = ("medium", "medium", "easy")
"""Levels of the questions that the reader answers: those of the hardest level are left for training by reward."""
DRILLED = ("", "", "medium", "easy")
"""Levels of the paragraphs of drills."""
MOST_ASKED = 6
"""Questions of a drill."""
DRILLS = 0.4
"""Share of the lessons that are drills."""


@dataclass(frozen=True)
class Reading:
    """A question as its reader has it: its words innermost first, the fact of each paragraph, and the paragraph of
    each step. Names are stems."""

    question: tuple[str, ...]
    facts: tuple[Fact, ...]
    support: tuple[int, ...]


class FactLessons:
    """An endless stream of lessons, the same for the same seed. The questions are new, with the names of both
    splits: those of the sets have other seeds, and so other facts."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"musique lessons {seed}")

    def batch(self, size: int) -> list[Lesson]:
        return [self._drill() if self._rng.random() < DRILLS else self._lesson() for _ in range(size)]

    def shuffle(self, things: list[Any]) -> None:
        self._rng.shuffle(things)

    def _draw(self, levels: Sequence[str]) -> Reading:
        drawn = draw_facts(self._rng, self._rng.choice(levels), self._rng.choice(("train", "test")))
        facts = [Fact(f.relation, tuple(map(_stem, f.subjects)), _stem(f.value)) for f in drawn.facts]
        question = [word if word in ALL else _stem(word) for word in steps_of(drawn.question)]
        return Reading(tuple(question), tuple(facts), tuple(map(drawn.facts.index, drawn.gold)))

    def _drill(self) -> Lesson:
        """Several paragraphs, each reached by its subject once the previous one is answered."""
        facts = self._draw(DRILLED).facts
        facts = facts[: self._rng.randint(2, len(facts))]
        chain, given = list[str](), set[int]()
        for number in self._rng.sample(range(len(facts)), min(MOST_ASKED, len(facts))):
            step = (*facts[number].subjects, facts[number].relation)
            question = [*asked(step), "m1"]
            given |= set(range(len(chain), len(chain) + len(question)))
            chain += [*question, ANSWER, *write_steps(step, facts, [number])]
        stated = encode_prompt([], facts, answers=1).split()[:-2]
        return Lesson(stated, [*chain, STOP], frozenset(given))

    def _lesson(self) -> Lesson:
        rng, reading = self._rng, self._draw(LEVELS)
        count = rng.choices(CHAIN_LENGTHS, CHAIN_WEIGHTS)[0]
        parent: list[int] = []
        rewards: Sequence[float] = ()
        if rng.random() < WITH_PARENT:
            parent = read(reading, rng)
            rewards = rewards_of(reading, parent)
        shown = [f"p{number}" for number in parent]
        prompt = encode_prompt(reading.question, reading.facts, shown, rewards, count)
        chain = []
        for _ in range(count):
            cited = read_again(reading, parent, rng) if parent else read(reading, rng)
            chain += [ANSWER, *write_steps(reading.question, reading.facts, cited)]
        return Lesson(prompt.split(), [*chain, STOP])


def _stem(name: str) -> str:
    stem = stem_of(name)
    assert stem is not None  # every made-up name has one
    return stem


def rewards_of(reading: Reading, cited: Sequence[int]) -> tuple[float, ...]:
    """The score as in evo.plugins.text_tasks.musique.rewards, for at most four steps; names are single words
    here."""
    hops = [float(index in cited) for index in reading.support]
    facts = reading.facts
    right = bool(cited) and facts[cited[-1]].value == facts[reading.support[-1]].value
    return (*hops, *(1.0,) * (4 - len(hops)), float(right))


def read(reading: Reading, rng: random.Random) -> list[int]:
    """A hasty answer: a paragraph for each step."""
    return _read(reading, rng, (), ())


def read_again(reading: Reading, parent: Sequence[int], rng: random.Random) -> list[int]:
    """Another answer after one that was marked: its right paragraphs mostly kept, its wrong ones avoided."""
    right = [index for index in parent if index in reading.support]
    return _read(reading, rng, right, [index for index in parent if index not in right])


def _read(reading: Reading, rng: random.Random, right: Sequence[int], wrong: Sequence[int]) -> list[int]:
    facts, stack, cited = reading.facts, list[str](), list[int]()
    for word in reading.question:
        if word not in ALL:
            stack.append(word)
            continue
        arity = len(ALL[word].subjects)
        subjects = tuple(stack[-arity:])
        del stack[-arity:]
        cited.append(_look(facts, word, subjects, cited, rng, right, wrong))
        stack.append(facts[cited[-1]].value)
    return cited


def _look(
    facts: Sequence[Fact],
    relation: str,
    subjects: tuple[str, ...],
    cited: Sequence[int],
    rng: random.Random,
    right: Sequence[int],
    wrong: Sequence[int],
) -> int:
    exact = [i for i, fact in enumerate(facts) if (fact.relation, fact.subjects) == (relation, subjects)]
    kept = exact and exact[0] in right and rng.random() < KEEP
    if exact and (kept or rng.random() < CARE):
        return exact[0]
    free = [i for i in range(len(facts)) if i not in cited and i not in wrong] or list(range(len(facts)))
    alike = [i for i in free if facts[i].relation == relation or set(facts[i].subjects) & set(subjects)]
    return rng.choice(free if rng.random() < GUESS or not alike else alike)
