"""The contract of a prompt format: how one problem is put to one policy, and how the policy's text is read.

Building and parsing are in one class because they must agree: the parser reads what the prompt requests.

A policy names the format that it understands (Policy.prompt_format): `chat`, `maze-compact`, `maze-edit`, or one that a
package adds with an entry point whose name is the format:

    [project.entry-points."evo.prompt_formats"]
    sketch = "my_package.prompts:open_sketch"

    def open_sketch(problem: Problem, config: PromptConfig, answers: int) -> PromptFormat: ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from evo.config.run import PromptConfig
from islands.types import Selection
from problems.contract import Problem
from problems.types import Prompt, Rollout
from vpo.chain import Chain


class PromptFormat(Protocol):
    """One problem's prompts, each for a rollout of m answers."""

    @property
    def default_limit(self) -> int:
        """Tokens that a rollout may take if the user sets no limit."""

    def select_shown(self, selection: Selection) -> Selection:
        """The part of a selection that the prompt shows: the parent and the inspirations to store."""

    def build(self, selection: Selection, stream: int, rng: np.random.Generator | None = None) -> Prompt:
        """The prompt of a selection.

        stream: of the policy's random numbers
        rng: of a format that writes its answers itself; by default it is of the stream
        """

    def parse(self, rollout: Rollout, selection: Selection) -> Chain:
        """The answers of a rollout of that prompt. Never raises on any text."""

    def write(self, answers: Sequence[str], selection: Selection) -> str | None:
        """The rollout of that prompt that `parse` reads as these answers, which are distinct and as many as the
        prompt requests; None if this format cannot express them. Used for training on examples
        (evo.training.improve); a format without it supports everything else."""


Opener = Callable[[Problem, PromptConfig, int], PromptFormat]
"""(problem, config, answers) -> the format. Raises BadInput in one line if they do not go together."""
