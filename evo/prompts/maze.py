"""Prompts in the token languages of the embedded maze policies (vpo.embedded.language)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evo.config.run import PromptConfig
from evo.errors import BadInput
from evo.prompts.chat import begins
from islands.types import Selection
from problems.contract import Problem
from problems.maze.problem import MazeProblem
from problems.types import Prompt, Rollout

if TYPE_CHECKING:
    import numpy as np

    from islands.types import Candidate
    from vpo.chain import Chain


def open_maze(problem: Problem, config: PromptConfig, answers: int, name: str) -> MazeFormat:
    """name: one of MAZE_FORMATS. Raises BadInput on a problem that is no maze, or none that the language can write."""
    if not isinstance(problem, MazeProblem):
        raise BadInput(
            f"this policy only understands mazes and cannot search {problem.name}; name as --policy a hub id or "
            "directory, openai:MODEL@URL, or scripted:mutate, which learns nothing and needs no model"
        )
    return MazeFormat(problem, config, answers, name)


class MazeFormat:
    """A token language of an embedded maze policy: board, mode, and a parent with its reward vector."""

    def __init__(self, problem: MazeProblem, config: PromptConfig, answers: int, name: str = "maze-compact"):
        self.problem, self.config, self.answers, self.name = problem, config, answers, name
        try:
            self._text(None)
        except ValueError as error:
            raise BadInput(f"{problem.name}: {error}") from error

    @property
    def default_limit(self) -> int:
        from vpo.chain import default_max_tokens

        return default_max_tokens("route", self.answers, self.name)

    def select_shown(self, selection: Selection) -> Selection:
        parent = selection.parent if self.config.show_parent else None
        return Selection(None if parent is None or not parent.text or parent.error else parent, (), ())

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        from vpo.embedded import draw_prefill

        parent = self.select_shown(selection).parent
        begun = ""
        if parent is not None and rng is not None and begins(self.config, rng):
            begun = draw_prefill(self.problem, parent.text, rng)
        if begun:
            # what is kept of the parent is in plain sight: a second copy would only make the prompt longer
            return Prompt(self._text(None), stream=stream, prefill=begun)
        return Prompt(self._text(parent), stream=stream)

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        from vpo.chain import parse

        shown = self._text(self.select_shown(selection).parent)
        return parse(rollout.text, self.problem.answer_format, self.answers, prompt_format=self.name, prompt=shown)

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        from vpo.embedded.writing import write_routes

        shown = self._text(self.select_shown(selection).parent)
        return write_routes(self.problem.maze, answers, shown, self.name)

    def _text(self, parent: Candidate | None) -> str:
        from vpo.embedded import prompt_text

        if parent is None:
            return prompt_text(self.problem, answers=self.answers, dialect=self.name)
        return prompt_text(self.problem, parent.text, parent.rewards, self.answers, self.name)
