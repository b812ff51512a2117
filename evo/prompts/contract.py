"""The contract of a prompt format: how one problem is put to one policy, and how what the policy wrote is read.

Building and parsing stand together because they must agree: what a prompt asks for is what its parser reads.

A policy names the format that it understands (Policy.prompt_format): `chat`, `maze-compact`, `maze-edit`, or one that a
package adds with an entry point whose name is the format:

    [project.entry-points."evo.prompt_formats"]
    sketch = "my_package.prompts:open_sketch"

    def open_sketch(problem: Problem, config: PromptConfig, answers: int) -> PromptFormat: ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from evo.config.run import PromptConfig
from evo.errors import BadInput
from islands.types import Selection
from problems.contract import Problem
from problems.types import Prompt, Rollout
from vpo.policies.prompt_formats import ENTRY_POINTS, MAZE_FORMATS, find_entry_point

if TYPE_CHECKING:
    import numpy as np

    from vpo.chain import Chain


class PromptFormat(Protocol):
    """One problem's prompts, each for a rollout of m answers."""

    @property
    def default_limit(self) -> int:
        """Tokens that a rollout may take where the user sets no limit."""
        ...

    def shown(self, selection: Selection) -> Selection:
        """What of a selection the prompt shows: the parent and the inspirations that go on record."""
        ...

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        """The prompt of a selection.

        stream: of the policy's random numbers
        rng: decides whether the answer is begun, and how far; without one it never is
        """
        ...

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        """The answers of a rollout of that prompt. Never raises on what was written."""
        ...


Opener = Callable[[Problem, PromptConfig, int], PromptFormat]
"""(problem, config, answers) -> the format. Raises BadInput, one line, where they do not go together."""


def open_format(problem: Problem, name: str, config: PromptConfig, answers: int) -> PromptFormat:
    """The prompt format of this name for a problem; BadInput where they do not go together."""
    return _opener(name)(problem, config, answers)


def _opener(name: str) -> Opener:
    if name == "chat":
        from evo.prompts.chat import open_chat

        return open_chat
    if name in MAZE_FORMATS:
        from evo.prompts.maze import open_maze

        return partial(open_maze, name=name)
    point = find_entry_point(name)
    if point is None:
        raise BadInput(f"the policy asks for the prompt format {name!r}, which nothing installed has ({ENTRY_POINTS})")
    try:
        opener: Opener = point.load()
    except ImportError as error:
        raise BadInput(f"prompt format {name!r}: {point.value} cannot be imported: {error}") from error
    return opener
