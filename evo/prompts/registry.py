"""Prompt formats by name: which of ours, or of an installed package's, puts a problem to a policy; and the format of
the token languages of embedded policies (vpo.languages.contract)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.chat import ChatFormat, WorkFolderFormat
from evo.prompts.contract import Opener, PromptFormat
from evo.prompts.tuned import TunedFormat
from islands.types import NOTHING_SHOWN, Selection
from problems.contract import Problem
from problems.entry_points import find_entry_points, load_entry_point
from problems.types import Prompt, Rollout
from vpo.chain import Chain, parse_chain
from vpo.languages.contract import open_dialect
from vpo.policies.prompt_formats import FORMAT_ENTRY_POINTS, TUNED, WORK_FOLDER, is_token_format


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


def open_format(problem: Problem, name: str, config: PromptConfig, answers: int) -> PromptFormat:
    """The prompt format of this name for a problem; BadInput if they do not go together."""
    if is_token_format(name):
        return TokenFormat(problem, config, answers, name)
    opener: Opener
    if name in OURS:
        opener = OURS[name]
    elif (point := find_entry_points(FORMAT_ENTRY_POINTS).get(name)) is not None:
        opener = load_entry_point(point, f"prompt format {name!r}")
    else:
        raise BadInput(
            f"the policy needs the prompt format {name!r}, which no installed package has ({FORMAT_ENTRY_POINTS})"
        )
    return opener(problem, config, answers)


def open_chat(problem: Problem, config: PromptConfig, answers: int) -> PromptFormat:
    """The problem's templates if it is an OpenEvolve directory, else ours. Raises BadInput if problem and
    configuration do not fit."""
    settings = problem.settings
    openevolve = config.style == "openevolve" or (config.style == "auto" and bool(settings))
    if config.style == "openevolve" and not settings:
        raise BadInput(f"prompt.style openevolve needs an OpenEvolve problem directory; {problem.name} is none")
    diff = config.diff
    if diff is None:
        diff = bool(settings.get("diff_based_evolution", False)) and answers == 1
    if diff and answers > 1:
        raise BadInput("prompt.diff edits one parent: it needs --answers 1")
    if diff and problem.answer_format == "route":
        raise BadInput(f"prompt.diff edits programs; the answers of {problem.name} are routes")
    if openevolve:
        from evo.prompts.openevolve import OpenEvolveFormat

        return OpenEvolveFormat(problem, config, answers, diff)
    return ChatFormat(problem, config, answers, diff)


OURS: dict[str, Opener] = {"chat": open_chat, WORK_FOLDER: WorkFolderFormat, TUNED: TunedFormat}
