"""Mazes by hand: prompts of the embedded policies, and what they answer, without a search around them."""

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
    """The compact prompt that asks for `answers` routes (1 to 5), showing a parent if one is given.

    parent: the parent's answer in any form that the maze reads; one that cannot be read, or "", is left out
    parent_rewards: (d,) its reward vector; None = worked out from the walk
    dialect: one of MAZE_FORMATS
    Raises ValueError for a board the language has no words for, and for too many answers.
    """
    return open_dialect(dialect).prompt(problem, parent or "", parent_rewards, answers)


def draw_prefill(problem: MazeProblem, parent: str, rng: np.random.Generator) -> str:
    """A chain that has come as far as some step inside its first answer, which walks as `parent` does until there; ""
    where the parent cannot be read or is too short to be cut."""
    return open_dialect(DIALECT).prefill(problem, parent, rng)


def routes(text: str, prompt: str = "") -> list[str]:
    """The answers of a chain, in order, as move lists; duplicates kept, empty answers left out.

    prompt: what the chain answers; it tells the size of the board, and edits are of the parent that it shows
    """
    return decode_chain(text, prompt)
