"""Prompts in the token languages of the embedded policies (vpo.languages.contract)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evo.config.run import PromptConfig
from evo.errors import BadInput
from islands.types import NOTHING_SHOWN, Selection
from problems.contract import Problem
from problems.types import Prompt, Rollout
from vpo.chain import Chain, parse_chain
from vpo.languages.contract import open_dialect


class TokenFormat:
    """A token language of an embedded policy: the problem, the mode, and a parent.

    name: of a dialect (vpo.languages.contract)
    Raises BadInput on a problem that the language cannot write, and for too many answers.
    """

    def __init__(self, problem: Problem, config: PromptConfig, answers: int, name: str):
        self.problem, self.config, self.answers, self.name = problem, config, answers, name
        self.dialect = open_dialect(name)
        if not self.dialect.understands(problem):
            raise BadInput(
                f"this policy only understands {self.dialect.speaks_of} and cannot search {problem.name}; name as "
                "--policy a hub id or directory, openai:MODEL@URL, or scripted:mutate, which learns nothing and needs "
                "no model"
            )
        try:
            self._text(NOTHING_SHOWN)
        except ValueError as error:
            raise BadInput(f"{problem.name}: {error}") from error

    @property
    def default_limit(self) -> int:
        return self.dialect.most_tokens(self.answers)

    def select_shown(self, selection: Selection) -> Selection:
        parent = selection.parent if self.config.show_parent else None
        readable = parent is not None and parent.text and not parent.error
        return Selection(parent if readable else None, (), ())

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        return Prompt(self._text(self.select_shown(selection)), stream=stream)

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        shown = self._text(self.select_shown(selection))
        return parse_chain(
            rollout.text, self.problem.answer_format, self.answers, prompt_format=self.name, prompt=shown
        )

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        return self.dialect.write(self.problem, answers, self._text(self.select_shown(selection)))

    def _text(self, shown: Selection) -> str:
        return self.dialect.prompt(self.problem, shown.parent.text if shown.parent else "", self.answers)
