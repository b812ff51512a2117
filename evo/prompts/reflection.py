"""A reflection: the question to a policy about a future parent, and how its reply is read.

After GEPA (arXiv 2507.19457) and Mind Evolution's critic (arXiv 2501.09891): a policy describes the faults of an answer
before the answer is changed. Input: one candidate, its vector and its scorer's feedback. Output: two sentences.
"""

from __future__ import annotations

import re

from evo.config.run import PromptConfig
from evo.prompts.chat import cut
from islands.types import Candidate
from problems.contract import Problem
from problems.types import Prompt

SYSTEM = "You review an answer to a task. You reply with two short sentences of plain text and never with code."
REQUEST = (
    "In two sentences: what is wrong with this answer, and what has to change so that the failing scores rise? "
    "Write no code."
)
SENTENCES, MOST_CHARS = 2, 400
STATEMENT_CHARS, ANSWER_CHARS = 3000, 4000
FULL = 1.0 - 1e-9
"""A component of this value or more is not failing; rewards of most problems end at 1."""

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")


def ask_reflection(problem: Problem, parent: Candidate, config: PromptConfig, stream: int, most: int) -> Prompt:
    """The question about a candidate. most: tokens of the reply."""
    vector = list(zip(problem.objectives, parent.rewards, strict=True))
    failing = [(name, value) for name, value in vector if value < FULL]
    answer = cut(parent.text, min(config.max_answer_chars, ANSWER_CHARS))
    if problem.answer_format == "python":
        answer = f"```python\n{answer.rstrip()}\n```"
    lines = [f"Fitness {parent.fitness:.4g}", "Failing: " + (_listed(failing) or "none of the scores")]
    if len(failing) < len(vector):
        lines.append("Right: " + _listed([component for component in vector if component not in failing]))
    if parent.feedback and config.max_feedback_chars:
        lines.append("Feedback: " + cut(parent.feedback, config.max_feedback_chars))
    sections = (
        "# Task\n" + cut(problem.statement().strip(), STATEMENT_CHARS),
        "# Answer\n" + answer,
        "# Its scores\n" + "\n".join(lines),
        "# What to write\n" + REQUEST,
    )
    return Prompt("\n\n".join(sections), SYSTEM, stream, max_tokens=most, task_chars=len(sections[0]))


def read_reflection(text: str) -> str:
    """The first two sentences outside of code, on one line; "" if there are none. Never raises."""
    plain = " ".join(_FENCE.sub(" ", text).split())
    said = " ".join(_SENTENCE.split(plain)[:SENTENCES]).strip()
    return said if len(said) <= MOST_CHARS else said[: MOST_CHARS - 1].rstrip() + "…"


def _listed(vector: list[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in vector)
