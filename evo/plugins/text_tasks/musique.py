"""MuSiQue as the VPO paper scores it: a question over paragraphs, each step of which has one.

The reward vector is [hop_1, ..., hop_4, answer]; its scalar is (hops + 3 answer) / 7. Options: `stratified=N` draws N
questions, as many of 2, 3 and 4 steps (the paper's test: 300, seed 42; `seed=S` for another), and `distractors=K` keeps
the needed paragraphs and K others. The paper does not name the random number generator of its 300, so ours may differ.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evo.plugins.text_tasks.problem import TaskRow, TextProblem, first_field, sentence, token_f1
from problems.contract import BadAddress, Score
from problems.rows import field_of

HOPS = 4
"""Components of hops, and distinct citations that count."""
_OBJECTIVES = (*(f"hop_{number}" for number in range(1, HOPS + 1)), "answer")
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
        return (0.0,) * len(_OBJECTIVES)
    hops = [float(index in cited.counted) for index in support[:HOPS]]
    best = max(token_f1(cited.answer, answer, articles=True) for answer in answers)
    return (*hops, *(1.0,) * (HOPS - len(hops)), best)


def scalar(rewards: Sequence[float]) -> float:
    return (sum(rewards[:HOPS]) + _ANSWER_WEIGHT * rewards[HOPS]) / (HOPS + _ANSWER_WEIGHT)


_TASK = """\
Answer the question from the paragraphs below. It takes several of them, one for each step; find each step's paragraph.

Paragraphs:
{paragraphs}

Question: {question}

Write the answer in this form, with the numbers of the paragraphs that the steps rest on (at most 4, commas between):
<support>numbers</support>
<answer>the answer in a few words</answer>"""


class MusiqueProblem(TextProblem):
    """A question with its paragraphs.

    row: of the official schema: `paragraphs` of `idx`, `title`, `paragraph_text`; `question`; `question_decomposition`
        with `paragraph_support_idx`; `answer` and `answer_aliases`
    """

    objectives = _OBJECTIVES
    rules = "musique 1"

    def __init__(self, name: str, row: Mapping[str, Any], where: str, source: str, licence: str) -> None:
        super().__init__(name, row, where, source, licence)
        if row.get("answerable") is False:
            raise BadAddress(f"{where}: the question has no answer; only MuSiQue-Ans can be scored")
        self.paragraphs = field_of(row, "paragraphs", list, where)
        self.question = field_of(row, "question", str, where)
        self.support = tuple(gold_indices(row, where))
        aliases = row.get("answer_aliases") or []
        if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
            raise BadAddress(f"{where}: answer_aliases is no list of texts")
        self.answers = (field_of(row, "answer", str, where), *aliases)
        known = {field_of(p, "idx", int, where) for p in self.paragraphs if field_of(p, "paragraph_text", str, where)}
        if not set(self.support) <= known:
            raise BadAddress(f"{where}: a step rests on a paragraph that is not there")

    @property
    def reference(self) -> str:
        """An answer that earns everything."""
        return f"<support>{', '.join(map(str, self.support))}</support>\n<answer>{self.answers[0]}</answer>"

    def statement(self) -> str:
        lines = [f"[{p['idx']}] (Title: {p.get('title', '')}) {p['paragraph_text']}" for p in self.paragraphs]
        return _TASK.format(paragraphs="\n".join(lines), question=self.question)

    def score(self, answer: str) -> Score:
        """Features: how many paragraphs it cites and how many words its answer has."""
        cited = parse_cited(answer)
        if not cited.answer:
            return Score.failure(len(_OBJECTIVES), "no <answer>, or nothing in it", "There is no text in <answer>.")
        rewards = score_cited(cited, self.support, self.answers)
        features = {"cited": float(len(cited.support)), "words": float(len(cited.answer.split()))}
        return Score(rewards, scalar(rewards), features, self._feedback(cited, rewards))

    def _feedback(self, cited: Cited, rewards: tuple[float, ...]) -> str:
        """The faults, without the right paragraphs or words."""
        lines = []
        missing = [str(hop) for hop, reward in enumerate(rewards[:HOPS], 1) if not reward]
        needless = [str(index) for index in cited.counted if index not in self.support]
        if missing:
            lines.append(f"the paragraph of step {', '.join(missing)} of {len(self.support)} is not cited")
        if needless:
            lines.append(f"paragraph {', '.join(needless)} is not needed")
        if len(cited.support) > HOPS:
            lines.append(f"only the first {HOPS} citations count")
        if rewards[HOPS] < 1:
            lines.append(
                "the answer is wrong" if not rewards[HOPS] else "the answer has words that are wrong or missing"
            )
        return sentence(lines)


def gold_indices(row: Mapping[str, Any], where: str) -> list[int]:
    """The paragraph of each step of the decomposition, in order."""
    steps = field_of(row, "question_decomposition", list, where)
    indices = [step.get("paragraph_support_idx") if isinstance(step, dict) else None for step in steps]
    if not indices or len(indices) > HOPS or not all(isinstance(index, int) for index in indices):
        raise BadAddress(f"{where}: question_decomposition has no paragraph_support_idx for each of 1 to {HOPS} steps")
    return [index for index in indices if isinstance(index, int)]


_SEED = 42
MUSIQUE_OPTIONS = ("stratified", "seed", "distractors")


def select_rows(rows: Sequence[TaskRow], options: Mapping[str, int]) -> Sequence[TaskRow]:
    """The rows that `stratified` draws, in the order of the file, each cut to `distractors`."""
    if "stratified" in options:
        rows = stratify(rows, options["stratified"], options.get("seed", _SEED))
    elif "seed" in options:
        raise BadAddress("musique: seed goes with stratified=N")
    if "distractors" in options:
        rows = [drop_paragraphs(row, options["distractors"]) for row in rows]
    return rows


def stratify(rows: Sequence[TaskRow], total: int, seed: int) -> list[TaskRow]:
    """total/3 questions of 2, 3 and 4 steps each."""
    if total < 3 or total % 3:
        raise BadAddress(f"musique: stratified={total} must be a multiple of 3")
    rng, chosen = random.Random(seed), []
    for hops in (2, 3, 4):
        places = [i for i, row in enumerate(rows) if len(row.get("question_decomposition") or ()) == hops]
        if len(places) < total // 3:
            raise BadAddress(
                f"musique: stratified={total} needs {total // 3} questions of {hops} steps, not {len(places)}"
            )
        chosen += rng.sample(places, total // 3)
    return [rows[i] for i in sorted(chosen)]


def drop_paragraphs(row: TaskRow, distractors: int) -> TaskRow:
    """The paragraphs of its steps and `distractors` others, numbered again in their old order."""
    gold = set(gold_indices(row, "musique: a row"))
    others = [paragraph["idx"] for paragraph in row["paragraphs"] if paragraph["idx"] not in gold]
    rng = random.Random(f"short {row.get('id')}")
    kept = gold | set(rng.sample(others, min(distractors, len(others))))
    paragraphs = [paragraph for paragraph in row["paragraphs"] if paragraph["idx"] in kept]
    place = {paragraph["idx"]: i for i, paragraph in enumerate(paragraphs)}
    steps: list[dict[str, Any]] = [
        {**step, "paragraph_support_idx": place[step["paragraph_support_idx"]]}
        for step in row["question_decomposition"]
    ]
    renumbered = [{**paragraph, "idx": place[paragraph["idx"]]} for paragraph in paragraphs]
    return {**row, "paragraphs": renumbered, "question_decomposition": steps}
