"""One question of MuSiQue as a Problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evo.plugins.text_tasks.musique.rewards import HOPS, OBJECTIVES, Cited, parse_cited, scalar, score_cited
from evo.plugins.text_tasks.problem import TextProblem
from problems.contract import BadAddress, Score
from problems.rows import field_of

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

    objectives = OBJECTIVES
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

    def known_answers(self, seed: int) -> list[str]:
        """The reference."""
        return [self.reference]

    def statement(self) -> str:
        lines = [f"[{p['idx']}] (Title: {p.get('title', '')}) {p['paragraph_text']}" for p in self.paragraphs]
        return _TASK.format(paragraphs="\n".join(lines), question=self.question)

    def score(self, answer: str) -> Score:
        """Features: how many paragraphs it cites and how many words its answer has."""
        cited = parse_cited(answer)
        if not cited.answer:
            return Score.failure(len(OBJECTIVES), "no <answer>, or nothing in it", "There is no text in <answer>.")
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
        text = "; ".join(lines)
        return f"{text[0].upper()}{text[1:]}." if text else ""


def gold_indices(row: Mapping[str, Any], where: str) -> list[int]:
    """The paragraph of each step of the decomposition, in order."""
    steps = field_of(row, "question_decomposition", list, where)
    indices = [step.get("paragraph_support_idx") if isinstance(step, dict) else None for step in steps]
    if not indices or len(indices) > HOPS or not all(isinstance(index, int) for index in indices):
        raise BadAddress(f"{where}: question_decomposition has no paragraph_support_idx for each of 1 to {HOPS} steps")
    return [index for index in indices if isinstance(index, int)]
