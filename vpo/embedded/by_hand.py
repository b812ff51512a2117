"""Mazes by hand: prompts of the embedded policies and their answers, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from problems.maze import MazeProblem
from vpo.embedded.decoding import decode_chain
from vpo.embedded.dialects import open_dialect
from vpo.embedded.words import DIALECT

if TYPE_CHECKING:
    import numpy as np


def prompt_text(
    problem: MazeProblem,
    parent: str | None = None,
    parent_rewards: Sequence[float] | None = None,
    answers: int = 3,
    dialect: str = DIALECT,
) -> str:
    """The compact prompt for `answers` routes (1 to 5), showing a parent if one is given.

    parent: the parent's answer in any form that the maze reads; one that cannot be read, or "", is left out
    parent_rewards: (d,) its reward vector; None = computed from the walk
    dialect: one of MAZE_FORMATS
    Raises ValueError for a board outside the language, and for too many answers.
    """
    return open_dialect(dialect).prompt(problem, parent or "", parent_rewards, answers)


def draw_prefill(problem: MazeProblem, parent: str, rng: np.random.Generator) -> str:
    """A chain cut inside its first answer, which walks as `parent` does up to there; "" if the parent cannot be read
    or is too short to cut."""
    return open_dialect(DIALECT).prefill(problem, parent, rng)


def routes(text: str, prompt: str = "") -> list[str]:
    """The answers of a chain, in order, as move lists; duplicates kept, empty answers left out.

    prompt: of the chain; it gives the size of the board and the parent that edits refer to
    """
    return decode_chain(text, prompt)
