"""A compact language for questions over made-up facts, one token per name, relation or paragraph.

    Galham seat p0 Norbask Feldell mayor p1 Ulneck ...       the paragraphs: subjects, relation, number, value
    q Galham : seat mayor                                    the question, innermost first, as its steps go
    par p1 no no ok ok a0                                    a parent's answer: per hop, whether the right paragraph is
    cited, and how much of its answer is right (optional) m3                                                       the
    number of answers requested; the prompt ends here > Galham seat p0 Norbask mayor p4 Ulneck > ... <eos>     the
    chain: `>` opens an answer, which repeats the question with a paragraph after each relation, and its value

A name is its stem, which is an alias of the name: `Galham` for Galham Mills. Everything is read from the text that any
    policy gets: the paragraphs' statements, and the question. A step of an answer repeats its paragraph, so finding it
    takes one look back: to the place with these names and this relation. Only the paragraphs' numbers in a chain count;
    the value of the last one answers. A prompt is 30 to 110 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from evo.plugins.text_tasks.facts.words import (
    ANSWER,
    MOST_PARAGRAPHS,
    OF,
    PARAGRAPHS,
    QUESTION,
    RIGHT,
    SHARES,
    WRONG,
    stem_of,
)
from evo.plugins.text_tasks.musique.facts import read_question, steps_of
from evo.plugins.text_tasks.musique.problem import MusiqueProblem
from evo.plugins.text_tasks.musique.rewards import parse_cited
from evo.plugins.text_tasks.world import ALL, Fact, read_facts
from vpo.embedded.words import MOST_ANSWERS, PARENT


def facts_of(problem: MusiqueProblem) -> list[Fact]:
    """The fact of each paragraph, by its number, its names as their stems.

    Raises ValueError for paragraphs that the language has no words for.
    """
    if len(problem.paragraphs) > MOST_PARAGRAPHS:
        raise ValueError(f"the embedded policy reads at most {MOST_PARAGRAPHS} paragraphs")
    stated = []
    for number, paragraph in enumerate(problem.paragraphs):
        facts = read_facts(paragraph["paragraph_text"])
        if paragraph["idx"] != number or len(facts) != 1:
            raise ValueError("the embedded policy reads paragraphs that state one made-up fact each")
        stems = [_stem(name) for name in (*facts[0].subjects, facts[0].value)]
        stated.append(Fact(facts[0].relation, tuple(stems[:-1]), stems[-1]))
    return stated


def question_of(problem: MusiqueProblem) -> list[str]:
    """The names, as stems, and the relations of the question, innermost first. Raises ValueError."""
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
    """The prompt for `answers` answers, as a token string. parent: the words of an answer, with its reward vector.

    Raises ValueError for a number of answers outside 1..5.
    """
    if not 1 <= answers <= MOST_ANSWERS:
        raise ValueError(f"the embedded policy writes 1 to {MOST_ANSWERS} answers a chain, not {answers}")
    words = [word for number, fact in enumerate(facts) for word in _stated(number, fact)]
    words += asked(question)
    if parent:
        *hops, answer = rewards
        words += [PARENT, *parent, *(RIGHT if hop else WRONG for hop in hops), SHARES[_share(answer)]]
    return " ".join([*words, f"m{answers}"])


def asked(question: Sequence[str]) -> list[str]:
    """The words of a question. A colon follows a name, so that a name precedes its relation only in a paragraph: a
    search for the two together finds the paragraph, not the question."""
    return [QUESTION, *(part for word in question for part in ([word] if word in ALL else [word, OF]))]


def _stated(number: int, fact: Fact) -> list[str]:
    return [*fact.subjects, fact.relation, f"p{number}", fact.value]


def _share(reward: float) -> int:
    return 0 if reward <= 0 else 2 if reward >= 1 else 1


def encode_parent(text: str, facts: Sequence[Fact]) -> list[str]:
    """The words for the paragraphs that an answer cites, the one whose value is its answer last; [] if none is."""
    return [f"p{number}" for number in _cited(text, facts)]


def encode_answer(text: str, question: Sequence[str], facts: Sequence[Fact]) -> list[str]:
    """The words of an answer without its opening: the question, and after each relation the next paragraph that it
    cites with its value, as far as they go; the one whose value is its answer last. [] if there is none."""
    cited = _cited(text, facts)
    steps = sum(word in ALL for word in question)
    return write_steps(question, facts, cited) if cited and len(cited) <= steps else []


def write_steps(question: Sequence[str], facts: Sequence[Fact], cited: Sequence[int]) -> list[str]:
    """The question as far as the paragraphs go, a paragraph and its value after each relation."""
    words, left = list[str](), list(cited)
    for word in question:
        if not left:
            break
        words.append(word)
        if word in ALL:
            number = left.pop(0)
            words += [f"p{number}", facts[number].value]
    return words


def _cited(text: str, facts: Sequence[Fact]) -> list[int]:
    cited = parse_cited(text)
    name = stem_of(cited.answer)
    numbers = [number for number in cited.counted if number < len(facts)]
    last = next((number for number in reversed(numbers) if facts[number].value == name), None)
    return [] if last is None else [*(n for n in numbers if n != last), last]


def decode_chain(text: str, prompt: str) -> list[str]:
    """The answers of a chain in the form that a problem scores, in order; text before the first is skipped, and
    answers that cite no paragraph are left out. prompt: of the chain, with the paragraphs' values."""
    values = _values(prompt)
    answers = []
    for section in f" {text} ".split(f" {ANSWER} ")[1:]:
        cited = [word for word in section.split() if word in values]
        if cited:
            answers.append(write_answer([word[1:] for word in cited], values[cited[-1]]))
    return answers


def _values(prompt: str) -> dict[str, str]:
    """The value that a paragraph states, by the word for the paragraph."""
    words = prompt.split()
    statements = words[: words.index(QUESTION) if QUESTION in words else len(words)]
    return {word: value for word, value in pairwise(statements) if word in PARAGRAPHS}


def write_answer(cited: Sequence[str | int], name: str) -> str:
    return f"<support>{', '.join(map(str, cited))}</support>\n<answer>{name}</answer>"
