"""`scripted:classic`: a mutation operator for mazes without learning; a trained one must beat it.

It reads the board and the parent from an English prompt, whatever the board's size, and answers with the teacher's
random edits of the parent (vpo.embedded.lessons.edit), or with a planner's routes if no parent is shown. It never looks
at gold, diamonds or lava.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

from problems.maze.board import MOVES, Maze, simulate
from problems.maze.planner import Planner, moves_between
from problems.maze.rules import TILES
from vpo.embedded.lessons import edit
from vpo.policies.contract import PolicyUnavailable

_ROW = re.compile(rf"(?m)^[{re.escape(TILES)}](?: [{re.escape(TILES)}])+$")
_BUDGET = re.compile(r"You have (\d+) steps")
_PARENT = re.compile(rf"# Answer to improve\n(?:.*\n)*?([{MOVES}]+)(?:\n|$)")


def reroutes(prompt: str, answers: int, rng: random.Random) -> list[str]:
    """`answers` move lists. Raises PolicyUnavailable for a prompt without a maze."""
    rows, budget = _ROW.findall(prompt), _BUDGET.search(prompt)
    if not rows or budget is None:
        raise PolicyUnavailable("scripted:classic answers only mazes; name another --policy")
    planner = _planner(tuple(rows[: len(rows[0].split())]), int(budget[1]))
    shown = _PARENT.search(prompt)
    parent = [] if shown is None else _walked(planner.maze, shown[1])
    return [moves_between(planner.maze, _route(planner, parent, rng)) for _ in range(answers)]


def _route(planner: Planner, parent: list[int], rng: random.Random) -> list[int]:
    edited = edit(planner, parent, rng) if len(parent) > 1 else None
    return planner.route(rng) if edited is None else edited.applied(parent)


def _walked(maze: Maze, moves: str) -> list[int]:
    """The cells of a walk without its bumps into walls."""
    cells = simulate(maze, moves).cells
    return [cell for i, cell in enumerate(cells) if not i or cell != cells[i - 1]]


@lru_cache(maxsize=256)
def _planner(rows: tuple[str, ...], budget: int) -> Planner:
    return Planner(Maze.from_rows(rows, budget))
