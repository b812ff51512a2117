"""Questions of MuSiQue's kind over made-up facts, in its schema, so that nothing can be recalled.

Shapes as in MuSiQue's ids: chains of two, three and four facts (2hop, 3hop1, 4hop1), two facts joined by a third
(3hop2), the same with a longer chain on one side (4hop2) or one more step behind (4hop3). A solver that reads the
paragraphs proves that the question has one answer, and none once a paragraph of its steps is gone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from evo.plugins.text_tasks.musique.facts import Lookup, Question, say, solve
from evo.plugins.text_tasks.world import ALL, BRANCH, RELATIONS, Fact, Names, draw_walk, read_facts

LEVELS = {
    "": "questions of 2 to 4 steps over 20 paragraphs of made-up facts",
    "easy": "questions of 2 steps over 5 paragraphs of made-up facts",
    "medium": "questions of 2 or 3 steps over 10 paragraphs of made-up facts",
}
_SHAPES = {
    "": (("2hop",), ("3hop1", "3hop2"), ("4hop1", "4hop2", "4hop3")),
    "easy": (("2hop",),),
    "medium": (("2hop",), ("3hop1",)),
}
_PARAGRAPHS = {"": 20, "easy": 5, "medium": 10}
_CHAINS = {"2hop": 2, "3hop1": 3, "4hop1": 4}
_FILLERS = (
    "Little else is recorded.",
    "This entry was last revised in spring.",
    "Older sources agree on this.",
    "A longer account is in the archive.",
)


@dataclass
class _World:
    """facts: those that the question needs, in the order of its steps"""

    rng: random.Random
    names: Names
    facts: list[Fact] = field(default_factory=list)

    def step(self, about: Question, relation: str, subject: str) -> tuple[Question, str]:
        """One more step from an entity: the question, and its answer."""
        value = self.names.draw(RELATIONS[relation].value)
        self.facts.append(Fact(relation, (subject,), value))
        return Lookup(relation, (about,)), value

    def chain(self, length: int, end: str | None = None) -> tuple[Question, str]:
        """A walk of `length` relations that no two steps share, to an entity of the kind `end`."""
        first, walk = draw_walk(self.rng, length, end)
        subject = self.names.draw(first)
        question: Question = subject
        for relation_name in walk:
            question, subject = self.step(question, relation_name, subject)
        return question, subject

    def joined(self, first: int) -> tuple[Question, str]:
        """A chain of `first` steps to a firm and one of a step to a town, joined."""
        (left, firm), (right, town) = self.chain(first, "firm"), self.chain(1, "town")
        person = self.names.draw("person")
        self.facts.append(Fact(BRANCH.name, (firm, town), person))
        return Lookup(BRANCH.name, (left, right)), person


@dataclass(frozen=True)
class DrawnFacts:
    """A question with the facts of its paragraphs, in their order, and of those the ones of its steps, in theirs.

    shape: of MuSiQue's ids
    """

    shape: str
    question: Question
    answer: str
    gold: list[Fact]
    facts: list[Fact]


def draw_facts(rng: random.Random, level: str, split: str) -> DrawnFacts:
    """A row's contents, unproven and not yet in prose. split: "train" and "test" share no names."""
    shape = rng.choice(rng.choice(_SHAPES[level]))
    world = _World(rng, Names(rng, split))
    if shape in _CHAINS:
        question, answer = world.chain(_CHAINS[shape])
    else:
        question, answer = world.joined(2 if shape == "4hop2" else 1)
        if shape == "4hop3":
            relation = rng.choice(("birthplace", "employer", "teacher"))
            question, answer = world.step(question, relation, answer)
    gold = list(world.facts)
    facts = [*gold, *_distractors(world, _PARAGRAPHS[level] - len(gold))]
    rng.shuffle(facts)
    return DrawnFacts(shape, question, answer, gold, facts)


def draw_question(rng: random.Random, level: str, split: str) -> dict[str, Any]:
    """A row of MuSiQue's schema, proven."""
    drawn = draw_facts(rng, level, split)
    question, answer, gold, facts = drawn.question, drawn.answer, drawn.gold, drawn.facts
    paragraphs = [
        {
            "idx": index,
            "title": fact.subjects[0],
            "paragraph_text": f"{fact.sentence()} {rng.choice(_FILLERS)}",
            "is_supporting": fact in gold,
        }
        for index, fact in enumerate(facts)
    ]
    prove(question, answer, paragraphs)
    kind = ALL[gold[-1].relation].value
    return {
        "id": f"{drawn.shape}__synthetic_{rng.getrandbits(48):012x}",
        "paragraphs": paragraphs,
        "question": _asked(say(question), kind),
        "question_decomposition": _steps(gold, facts),
        "answer": answer,
        "answer_aliases": _aliases(answer, kind),
        "answerable": True,
    }


def prove(question: Question, answer: str, paragraphs: list[dict[str, Any]]) -> None:
    """Raises RuntimeError unless the paragraphs have only this answer, and none without any supporting one."""
    stated = [read_facts(paragraph["paragraph_text"]) for paragraph in paragraphs]
    if solve(question, [fact for facts in stated for fact in facts]) != {answer}:
        raise RuntimeError(f"{say(question)}: {answer} is not the one answer")
    for paragraph in paragraphs:
        others = [fact for i, facts in enumerate(stated) if i != paragraph["idx"] for fact in facts]
        if bool(solve(question, others)) == paragraph["is_supporting"]:
            raise RuntimeError(f"{say(question)}: paragraph {paragraph['idx']} is marked wrong")


def _distractors(world: _World, number: int) -> list[Fact]:
    """Half of them the relation of a step about another subject (half of these with the same value), half another
    relation of an entity that a step passes."""
    rng, gold = world.rng, list(world.facts)
    facts: list[Fact] = []
    taken = {(fact.relation, fact.subjects[0]) for fact in gold}
    entities = [(fact.value, ALL[fact.relation].value) for fact in gold]
    while len(facts) < number:
        relation = None
        if len(facts) % 2:
            name, kind = rng.choice(entities)
            free = [r for r in RELATIONS.values() if r.subjects == (kind,) and (r.name, name) not in taken]
            relation = rng.choice(free) if free else None
        if relation is not None:
            taken.add((relation.name, name))
            facts.append(Fact(relation.name, (name,), world.names.draw(relation.value)))
            continue
        like = rng.choice(gold)
        kinds = ALL[like.relation].subjects
        other = rng.randrange(len(kinds))
        subjects = tuple(world.names.draw(kind) if i == other else like.subjects[i] for i, kind in enumerate(kinds))
        # the answer is in only one paragraph: otherwise it could be found without the steps
        value = (
            like.value if like is not gold[-1] and rng.random() < 0.5 else world.names.draw(ALL[like.relation].value)
        )
        facts.append(Fact(like.relation, subjects, value))
    return facts


def _steps(gold: list[Fact], facts: list[Fact]) -> list[dict[str, Any]]:
    """The decomposition: a step may name the answer of an earlier one as #1."""
    number = {fact.value: f"#{i}" for i, fact in enumerate(gold, 1)}
    return [
        {
            "id": i,
            "question": _asked(
                ALL[fact.relation].phrase.format(*(number.get(name, name) for name in fact.subjects)),
                ALL[fact.relation].value,
            ),
            "answer": fact.value,
            "paragraph_support_idx": facts.index(fact),
        }
        for i, fact in enumerate(gold)
    ]


def _asked(phrase: str, kind: str) -> str:
    return f"{'Who' if kind == 'person' else 'What'} is {phrase}?"


def _aliases(answer: str, kind: str) -> list[str]:
    """A short form, and one with a title."""
    words = answer.split()
    if kind == "person":
        return [words[-1], f"Dr {answer}"]
    if kind == "town":
        return [f"the town of {answer}"]
    return [words[0] if kind == "firm" else words[-1]]
