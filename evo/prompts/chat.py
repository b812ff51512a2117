"""Prompts for ordinary instruction models: a system message and a request in sections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evo.config.run import PromptConfig
from islands.types import Selection
from problems.contract import Problem
from problems.types import Prompt, Rollout

if TYPE_CHECKING:
    import numpy as np

    from islands.types import Candidate
    from vpo.chain import Chain

SYSTEM = (
    "You write better answers to a task than those found so far. Keep exactly to the layout that is asked for and "
    "write nothing besides."
)
PROGRAMMER = "You are an expert programmer. You reply in exactly the layout that is asked for, with code alone."


class ChatFormat:
    """A chat prompt for an ordinary instruction model."""

    def __init__(self, problem: Problem, config: PromptConfig, answers: int, diff: bool = False):
        from vpo.chain import instructions

        self.problem, self.config, self.answers, self.diff = problem, config, answers, diff
        self.task = f"# Task\n{problem.statement().strip()}"
        start = problem.seed_answer() if problem.answer_format == "python" else ""
        self.request = "# What to write\n" + instructions(problem.answer_format, answers, diff=diff, start=start)
        self.system = PROGRAMMER if problem.answer_format == "python" else SYSTEM

    @property
    def default_limit(self) -> int:
        return default_limit(self.problem, self.answers)

    def shown(self, selection: Selection) -> Selection:
        return shown_by(self.config, selection)

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        sections, shown = [self.task], self.shown(selection)
        if shown.parent is not None:
            sections.append("# Answer to improve\n" + self.described(shown.parent))
        others = {c.id: c for c in (*shown.best, *shown.inspirations)}
        if selection.parent is not None:
            others.pop(selection.parent.id, None)
        if others:
            others_shown = "\n\n".join(self.described(c, feedback=False) for c in others.values())
            sections.append("# Other answers found so far\n" + others_shown)
        sections.append(self.request)
        begun = begun_answer(self.problem, self.config, selection, rng)
        return Prompt("\n\n".join(sections), self.system, stream, begun)

    def described(self, candidate: Candidate, feedback: bool = True) -> str:
        """A candidate as a prompt shows it: its reward vector by name, its feedback, the answer last.

        The other way round small models copy the scores too, below every answer that they write.
        """
        text = cut(candidate.text, self.config.max_answer_chars)
        if self.problem.answer_format == "python":
            text = f"```python\n{text.rstrip()}\n```"
        vector = ", ".join(
            f"{name} {value:.3g}" for name, value in zip(self.problem.objectives, candidate.rewards, strict=True)
        )
        lines = [f"Fitness {candidate.fitness:.4g} ({vector})"]
        if feedback and candidate.feedback and self.config.max_feedback_chars:
            lines.append("Feedback: " + cut(candidate.feedback, self.config.max_feedback_chars))
        return "\n".join([*lines, text])

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        return read(rollout, self.problem, self.answers, self.shown(selection) if self.diff else None)


def shown_by(config: PromptConfig, selection: Selection) -> Selection:
    """What a chat prompt shows of a selection: nothing under show_parent off, else all that is not empty."""
    if not config.show_parent:
        return Selection(None, (), ())
    parent = selection.parent
    return Selection(
        parent if parent is not None and parent.text.strip() else None,
        tuple(c for c in selection.inspirations if c.text.strip()),
        tuple(c for c in selection.best if c.text.strip()),
    )


def default_limit(problem: Problem, answers: int) -> int:
    from vpo.chain import default_max_tokens

    return default_max_tokens(problem.answer_format, answers)


def begins(config: PromptConfig, rng: np.random.Generator) -> bool:
    """Whether this prompt's answer is begun. Draws once where any may be, so that nothing else moves with the share."""
    return config.prefill > 0 and rng.random() < config.prefill


def begun_answer(problem: Problem, config: PromptConfig, selection: Selection, rng: np.random.Generator | None) -> str:
    """The prefill of a chat prompt: the first part of the parent, "" for none."""
    from vpo.chain import draw_prefill

    parent = selection.parent if config.show_parent else None
    if parent is None or parent.error or rng is None or not begins(config, rng):
        return ""
    return draw_prefill(parent.text, problem.answer_format, rng)


def read(rollout: Rollout, problem: Problem, answers: int, edited: Selection | None) -> Chain:
    """The answers in a rollout of a chat prompt; with `edited`, what the prompt showed, they are edits of the
    parent, or of the seed where no parent was shown."""
    from vpo.chain import parse

    parent = None
    if edited is not None:
        parent = edited.parent.text if edited.parent is not None else problem.seed_answer()
    truncated = rollout.finish == "length"
    return parse(rollout.text, problem.answer_format, answers, diff_parent=parent, truncated=truncated)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters: the head and the tail, with the gap named."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{text[len(text) - tail :]}"
