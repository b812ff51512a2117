"""What the base policy for questions learns from: a hasty reader's answers to fresh questions.

The reader goes through the steps in order. Every other time (CARE) it looks the step up; else it takes a paragraph that
merely looks like it, because it has the relation or the name, or (GUESS) any: wrong, but plausible. So the base learns
the form, and to vary, and where to look; that both have to fit is left for training by reward to find out. Shown a
parent, the reader mostly keeps what was right of it and tries other paragraphs for the rest.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from problems.musique.generator import draw_question
from problems.musique.problem import MusiqueProblem
from problems.musique.rewards import parse_cited, score_cited
from problems.text.world import ALL, Fact
from vpo.embedded.lesson import Lesson, PooledTeacher
from vpo.embedded.musique.language import encode_answer, encode_prompt, facts_of, question_of, write_answer
from vpo.embedded.musique.words import ANSWER
from vpo.embedded.words import STOP

CHAIN_LENGTHS = (1, 2, 3, 4, 5)
CHAIN_WEIGHTS = (0.20, 0.05, 0.40, 0.05, 0.30)
CARE, GUESS = 0.5, 0.25
"""How often a step is looked up, and how often any paragraph is taken; else one that looks like it."""
WITH_PARENT = 0.3
KEEP = 0.9
"""How often a right step of the parent is kept."""
LEVELS = (("medium", 0.5), ("easy", 0.5))
"""Levels of the questions, with their shares."""
POOL = 4096
"""Questions in use at a time."""
FRESH = 0.1
"""New questions per lesson: a question serves ten lessons."""


@dataclass(frozen=True)
class Reading:
    """A question as its reader has it: its words innermost first, and the fact of each paragraph."""

    question: tuple[str, ...]
    facts: tuple[Fact, ...]
    support: tuple[int, ...]
    answers: tuple[str, ...]


class Lessons(PooledTeacher[Reading]):
    """An endless stream of lessons, the same for the same seed. The questions are drawn anew, with the names of both
    splits: those of the sets have other seeds, and so other facts."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"musique lessons {seed}", POOL, FRESH)

    def _draw(self) -> Reading:
        level = self._rng.choices([name for name, _ in LEVELS], [share for _, share in LEVELS])[0]
        row = draw_question(self._rng, level, self._rng.choice(("train", "test")))
        problem = MusiqueProblem("lesson", row, "a lesson", "", "")
        return Reading(tuple(question_of(problem)), tuple(facts_of(problem)), problem.support, problem.answers)

    def _lesson(self, reading: Reading) -> Lesson:
        rng = self._rng
        count = rng.choices(CHAIN_LENGTHS, CHAIN_WEIGHTS)[0]
        parent: list[str] = []
        rewards: Sequence[float] = ()
        if rng.random() < WITH_PARENT:
            text = read(reading, rng)
            parent, rewards = encode_answer(text, reading.facts), rewards_of(reading, text)
        prompt = encode_prompt(reading.question, reading.facts, parent, rewards, count)
        chain = []
        for _ in range(count):
            text = read_again(reading, text, rng) if parent else read(reading, rng)
            chain += [ANSWER, *encode_answer(text, reading.facts)]
        return Lesson(prompt.split(), [*chain, STOP])


def rewards_of(reading: Reading, text: str) -> tuple[float, ...]:
    return score_cited(parse_cited(text), reading.support, reading.answers)


def read(reading: Reading, rng: random.Random) -> str:
    """A hasty answer."""
    return _read(reading, rng, (), ())


def read_again(reading: Reading, parent: str, rng: random.Random) -> str:
    """Another answer after one that was marked: its right paragraphs mostly kept, its wrong ones avoided."""
    cited = parse_cited(parent).counted
    right = [index for index in cited if index in reading.support]
    return _read(reading, rng, right, [index for index in cited if index not in right])


def _read(reading: Reading, rng: random.Random, right: Sequence[int], wrong: Sequence[int]) -> str:
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
    return write_answer(cited, stack[-1])


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
