"""Requests for policies that work on files (vpo.policies.command): a JSON document, from which a folder is made."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.chat import MessageFormat
from islands.types import Selection
from problems.contract import Problem
from problems.types import Prompt, Rollout
from vpo.chain import Chain
from vpo.policies.prompt_formats import WORK_FOLDER


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
