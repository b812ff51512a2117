"""The reward vector of the VPO paper for MuSiQue: [hop_1, ..., hop_4, answer]; its scalar is (hops + 3 answer) / 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.plugins.text_tasks.problem import first_field
from evo.plugins.text_tasks.words import token_f1

HOPS = 4
"""Components of hops, and distinct citations that count."""
OBJECTIVES = (*(f"hop_{number}" for number in range(1, HOPS + 1)), "answer")
_ANSWER_WEIGHT = 3


@dataclass(frozen=True)
class Cited:
    """answer: "" if none was given; support: the distinct paragraphs cited, in order, all of them"""

    answer: str
    support: tuple[int, ...]

    @property
    def counted(self) -> tuple[int, ...]:
        return self.support[:HOPS]


def parse_cited(text: str) -> Cited:
    """The first <answer>, and from the first <support> the parts between commas that are only digits: not "[3]"."""
    tokens = [token.strip() for token in (first_field(text, "support") or "").split(",")]
    numbers = [int(token) for token in tokens if token.isdecimal() and len(token) < 10]
    return Cited((first_field(text, "answer") or "").strip(), tuple(dict.fromkeys(numbers)))


def score_cited(cited: Cited, support: Sequence[int], answers: Sequence[str]) -> tuple[float, ...]:
    """support: the paragraph of each hop, in order; answers: the answer and its aliases. Hops beyond those that the
    question has are 1. Without an answer everything is 0."""
    if not cited.answer:
        return (0.0,) * len(OBJECTIVES)
    hops = [float(index in cited.counted) for index in support[:HOPS]]
    best = max(token_f1(cited.answer, answer, articles=True) for answer in answers)
    return (*hops, *(1.0,) * (HOPS - len(hops)), best)


def scalar(rewards: Sequence[float]) -> float:
    return (sum(rewards[:HOPS]) + _ANSWER_WEIGHT * rewards[HOPS]) / (HOPS + _ANSWER_WEIGHT)
