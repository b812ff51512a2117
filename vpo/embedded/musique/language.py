"""A compact language for questions over made-up facts, one token a name, relation or paragraph.

    q Galham seat mayor                                      the question, innermost first, as its steps go
    p0 seat Galham Norbask p1 mayor Feldell Ulneck ...       the paragraphs: relation, subjects, value
    par p1 no no ok ok a0                                    a parent's answer, hop by hop whether the right paragraph
                                                             is cited, and how much of its answer is right (optional)
    m3                                                       the number of answers asked for; the prompt ends here
    > p0 p4 > p1 <eos>                                       the chain: `>` opens an answer, the paragraphs that it
                                                             cites follow, and the value of the last one answers

A name is its stem, which is an alias of the name: `Galham` for Galham Mills. Everything is read from the text that any
policy is shown: what a paragraph states, and the question. A prompt is 20 to 110 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from problems.musique.facts import read_question, steps_of
from problems.musique.problem import MusiqueProblem
from problems.musique.rewards import parse_cited
from problems.text.world import Fact, read_facts
from vpo.embedded.musique.words import (
    ANSWER,
    MOST_PARAGRAPHS,
    PARAGRAPHS,
    QUESTION,
    RIGHT,
    SHARES,
    WRONG,
    stem_of,
)
from vpo.embedded.words import MOST_ANSWERS, PARENT


def facts_of(problem: MusiqueProblem) -> list[Fact]:
    """The fact of each paragraph, by its number, its names as their stems.

    Raises ValueError for paragraphs that the language has no words for.
    """
    if len(problem.paragraphs) > MOST_PARAGRAPHS:
        raise ValueError(f"the embedded policy reads at most {MOST_PARAGRAPHS} paragraphs")
    found = []
    for number, paragraph in enumerate(problem.paragraphs):
        facts = read_facts(paragraph["paragraph_text"])
        if paragraph["idx"] != number or len(facts) != 1:
            raise ValueError("the embedded policy reads paragraphs that state one made-up fact each")
        stems = [_stem(name) for name in (*facts[0].subjects, facts[0].value)]
        found.append(Fact(facts[0].relation, tuple(stems[:-1]), stems[-1]))
    return found


def question_of(problem: MusiqueProblem) -> list[str]:
    """The names, as stems, and the relations that it asks for, innermost first. Raises ValueError."""
    words = steps_of(read_question(problem.question))
    return [_stem(word) if word[0].isupper() else word for word in words]


def _stem(name: str) -> str:
    stem = stem_of(name)
    if stem is None:
        raise ValueError(f"the embedded policy has no word for {name!r}")
    return stem


def encode_prompt(
    question: Sequence[str],
    facts: Sequence[Fact],
    parent: Sequence[str] = (),
    rewards: Sequence[float] = (),
    answers: int = 3,
) -> str:
    """The token string that asks for `answers` answers. parent: the words of an answer, with its reward vector.

    Raises ValueError for a number of answers outside 1..5.
    """
    if not 1 <= answers <= MOST_ANSWERS:
        raise ValueError(f"the embedded policy writes 1 to {MOST_ANSWERS} answers a chain, not {answers}")
    words = [QUESTION, *question]
    for number, fact in enumerate(facts):
        words += [f"p{number}", fact.relation, *fact.subjects, fact.value]
    if parent:
        *hops, answer = rewards
        words += [PARENT, *parent, *(RIGHT if hop else WRONG for hop in hops), SHARES[_share(answer)]]
    return " ".join([*words, f"m{answers}"])


def _share(reward: float) -> int:
    return 0 if reward <= 0 else 2 if reward >= 1 else 1


def encode_answer(text: str, facts: Sequence[Fact]) -> list[str]:
    """The words of an answer without its opening: the paragraphs that it cites, the one whose value is its answer last;
    [] where there is none."""
    cited = parse_cited(text)
    name = stem_of(cited.answer)
    numbers = [number for number in cited.counted if number < len(facts)]
    last = next((number for number in reversed(numbers) if facts[number].value == name), None)
    return [] if last is None else [f"p{number}" for number in (*(n for n in numbers if n != last), last)]


def decode_chain(text: str, prompt: str) -> list[str]:
    """The answers of a chain in the form that a problem scores, in order; what stands before the first is passed over,
    and answers that cite nothing are left out. prompt: what the chain answers, with the paragraphs' values."""
    values = _values(prompt)
    answers = []
    for section in f" {text} ".split(f" {ANSWER} ")[1:]:
        cited = [word for word in section.split() if word in values]
        if cited:
            answers.append(write_answer([word[1:] for word in cited], values[cited[-1]]))
    return answers


def _values(prompt: str) -> dict[str, str]:
    """By the word for a paragraph, the value that it states."""
    words = prompt.split()
    told = words[: words.index(PARENT) if PARENT in words else len(words) - 1]
    places = [i for i, word in enumerate(told) if word in PARAGRAPHS]
    return {told[i]: told[end - 1] for i, end in zip(places, [*places[1:], len(told)], strict=True)}


def write_answer(cited: Sequence[str | int], name: str) -> str:
    return f"<support>{', '.join(map(str, cited))}</support>\n<answer>{name}</answer>"
