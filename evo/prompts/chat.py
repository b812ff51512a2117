"""Prompts for ordinary instruction models (a system message and a request in sections), and for programs that work on
files (vpo.policies.command): a JSON document, from which a folder is made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.values import mark, write_number
from islands.types import NOTHING_SHOWN, Candidate, Selection
from problems.contract import Problem
from problems.identity import identity
from problems.objectives import is_lower, own_values, seeded_objectives
from problems.types import Prompt, Rollout
from vpo.chain import Chain, default_max_tokens, instructions, parse_chain, write_chain, write_edits
from vpo.policies.prompt_formats import WORK_FOLDER

_SYSTEM = (
    "You write better answers to a task than those found so far. Keep exactly to the layout that is asked for and "
    "write nothing besides."
)
_PROGRAMMER = "You are an expert programmer. You reply in exactly the layout that is asked for, with code alone."


class MessageFormat:
    """The common part of ordinary models' prompts: which candidates they show, and how an answer is read. With `diff`
    the answers are edits of the parent, or of the seed if no parent is shown."""

    def __init__(self, problem: Problem, config: PromptConfig, answers: int, diff: bool = False):
        self.problem, self.config, self.answers, self.diff = problem, config, answers, diff

    @property
    def default_limit(self) -> int:
        return default_max_tokens(self.problem.answer_format, self.answers)

    def select_shown(self, selection: Selection) -> Selection:
        """Nothing under show_parent off, else all that is not empty."""
        if not self.config.show_parent:
            return NOTHING_SHOWN
        parent = selection.parent
        return Selection(
            parent if parent is not None and parent.text.strip() else None,
            tuple(c for c in selection.inspirations if c.text.strip()),
            tuple(c for c in selection.best if c.text.strip()),
        )

    def others(self, shown: Selection, most: int | None = None) -> list[Candidate]:
        """What is shown with the parent, each once. most: of the best"""
        found = {c.id: c for c in (*shown.best[:most], *shown.inspirations)}
        return [candidate for candidate in found.values() if shown.parent is None or candidate.id != shown.parent.id]

    def texts_shown(self, shown: Selection, others: Iterable[Candidate] = ()) -> tuple[str, ...]:
        """Prompt.shown: the parent, or else the starting program of the request, and the others."""
        start = self.problem.seed_answer() if self.diff or self.problem.answer_format == "python" else ""
        return (start if shown.parent is None else shown.parent.text, *(candidate.text for candidate in others))

    def measured(self, candidate: Candidate, shown: Selection) -> tuple[dict[str, str], str]:
        """(its values by name, its fitness), with digits that tell the candidates of this prompt apart."""
        metrics = seeded_objectives(self.problem.objectives, self.problem.metrics, None)
        every = [candidate, *filter(None, [shown.parent]), *shown.best, *shown.inspirations]
        columns = zip(metrics, *(own_values(metrics, one) for one in every), strict=True)
        values = {one.name: write_number(column[0], column) + mark(one) for one, *column in columns}
        return values, write_number(candidate.fitness, [one.fitness for one in every])

    def scores(self, candidate: Candidate, shown: Selection) -> str:
        """What the scorer measured, and the fitness if that is not the same."""
        values, fitness = self.measured(candidate, shown)
        vector = ", ".join(f"{name} {value}" for name, value in values.items())
        return vector if is_lower(self.problem.metrics) else f"Fitness {fitness} ({vector})"

    def feedback(self, candidate: Candidate) -> str:
        """As long as the configuration allows; "" for none."""
        most = self.config.max_feedback_chars
        return cut(candidate.feedback, most) if most else ""

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        return self._read(rollout.text, selection, truncated=rollout.finish == "length")

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        if self.diff:
            text = write_edits(self._edited(selection), answers[0])
        else:
            text = write_chain(answers, self.problem.answer_format)
        read = self._read(text, selection).answers  # a stored program ends in a newline, one that is read does not
        return text if self._identities(read) == self._identities(answers) else None

    def _identities(self, answers: Sequence[str]) -> list[bytes]:
        return [identity(answer, self.problem.answer_format) for answer in answers]

    def _read(self, text: str, selection: Selection, truncated: bool = False) -> Chain:
        edited = self._edited(selection) if self.diff else None
        return parse_chain(text, self.problem.answer_format, self.answers, diff_parent=edited, truncated=truncated)

    def _edited(self, selection: Selection) -> str:
        """The program that edits are of."""
        parent = self.select_shown(selection).parent
        return self.problem.seed_answer() if parent is None else parent.text


class ChatFormat(MessageFormat):
    """A chat prompt in sections."""

    def __init__(self, problem: Problem, config: PromptConfig, answers: int, diff: bool = False):
        super().__init__(problem, config, answers, diff)
        self.task = f"# Task\n{problem.statement().strip()}"
        start = problem.seed_answer() if problem.answer_format == "python" else ""
        self.request = "# What to write\n" + instructions(problem.answer_format, answers, diff=diff, start=start)
        self.system = _PROGRAMMER if problem.answer_format == "python" else _SYSTEM

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        sections, shown = [self.task], self.select_shown(selection)
        others = self.others(shown)
        if shown.parent is not None:
            sections.append("# Answer to improve\n" + self.describe(shown.parent, shown))
        if others:
            others_shown = "\n\n".join(self.describe(candidate, shown, feedback=False) for candidate in others)
            sections.append("# Other answers found so far\n" + others_shown)
        sections.append(self.request)
        text, texts = "\n\n".join(sections), self.texts_shown(shown, others)
        return Prompt(text, self.system, stream, texts)

    def describe(self, candidate: Candidate, shown: Selection, feedback: bool = True) -> str:
        """A candidate as a prompt shows it: its values by name, its feedback, the answer last, in the layout of
        a reply: an answer that is itself a prompt is not read as a part of this one.

        The other way round small models copy the scores too, below every answer that they write.
        """
        text = write_chain([cut(candidate.text, self.config.max_answer_chars)], self.problem.answer_format)
        lines = [self.scores(candidate, shown)]
        if feedback and (told := self.feedback(candidate)):
            lines.append(f"Feedback: {told}")
        return "\n".join([*lines, text])


class WorkFolderFormat(MessageFormat):
    """One answer per rollout, given and read as files."""

    def __init__(self, problem: Problem, config: PromptConfig, answers: int):
        if answers != 1:
            raise BadInput("a command writes one answer per reply: it needs --answers 1")
        super().__init__(problem, config, answers)

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        shown = self.select_shown(selection)
        parent = shown.parent
        others = self.others(shown)
        told = () if parent is None else (self.scores(parent, shown), self.feedback(parent))
        request = {
            "format": WORK_FOLDER,
            "task": self.problem.statement().strip(),
            "files": self.problem.files_of(self.problem.seed_answer() if parent is None else parent.text),
            "feedback": "\n\n".join(filter(None, told)),
            "others": [
                {"files": self.problem.files_of(other.text), "scores": self.scores(other, shown)} for other in others
            ],
        }
        text = json.dumps(request, ensure_ascii=False, indent=1)
        return Prompt(text, "", stream, self.texts_shown(shown, others))

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        try:
            files = json.loads(rollout.text)["files"]
            answer = self.problem.answer_of({str(name): str(text) for name, text in files.items()})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Chain((), "the command changed no file and printed nothing")
        return Chain((answer,)) if answer.strip() else Chain((), "the answer is empty")

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        return json.dumps({"files": self.problem.files_of(answers[0])}, ensure_ascii=False)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters: the head and the tail, with the gap named."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters left out ...]\n{text[len(text) - tail :]}"
