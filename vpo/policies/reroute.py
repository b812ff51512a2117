"""`scripted:classic`: a maze's parent is re-routed at random, on boards of any size, from an English prompt: a mutation
operator without learning, which a trained one must beat.

Routes ignore gold, diamonds and lava.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

from problems.maze.board import TILES, Maze, simulate
from problems.maze.planner import Planner, moves_between
from problems.types import Prompt
from vpo.policies.contract import PolicyUnavailable

_NEW_BEGINNING, _NEW_END = 0.15, 0.35
"""Shares of the edits; the rest are new middles, half of them of at most _SHORT cells of the parent."""
_SHORT = 6
_DIRECT = 0.25
"""Share of the new middles that take the shortest way, as a shortcut does, rather than pass a way-point."""
_TRIES = 30
"""Edits tried until one fits the budget."""

_ROW = re.compile(rf"(?m)^[{re.escape(TILES)}](?: [{re.escape(TILES)}])+$")
_BUDGET = re.compile(r"You have (\d+) steps")


def classic(prompt: Prompt, form: str, answers: int, bits: int) -> list[str]:
    """The generator of scripted:classic (vpo.policies.scripted): `answers` move lists, edits of the parent if the
    prompt shows one, else a planner's routes. Raises PolicyUnavailable for a prompt without a maze."""
    rng = random.Random(bits)
    rows, budget = _ROW.findall(prompt.user), _BUDGET.search(prompt.user)
    if not rows or budget is None:
        raise PolicyUnavailable("scripted:classic answers only mazes; name another --policy")
    planner = _planner(tuple(rows[: len(rows[0].split())]), int(budget[1]))
    parent = _walked(planner.maze, prompt.shown[0]) if prompt.shown and prompt.shown[0] else []
    return [moves_between(planner.maze, _route(planner, parent, rng)) for _ in range(answers)]


def _route(planner: Planner, parent: list[int], rng: random.Random) -> list[int]:
    rerouted = _reroute(planner, parent, rng) if len(parent) > 1 else None
    return rerouted or planner.route(rng)


def _walked(maze: Maze, moves: str) -> list[int]:
    """The cells of a walk without its bumps into walls."""
    cells = simulate(maze, moves).cells
    return [cell for i, cell in enumerate(cells) if not i or cell != cells[i - 1]]


@lru_cache(maxsize=256)
def _planner(rows: tuple[str, ...], budget: int) -> Planner:
    return Planner(Maze.from_rows(rows, budget))


def _reroute(planner: Planner, parent: list[int], rng: random.Random) -> list[int] | None:
    """A route with a new beginning, a new end or a new middle, by way of at most one random cell.

    None if _TRIES of them were over the budget. A parent that does not reach E within the budget gets a new end.
    """
    maze = planner.maze
    whole = parent[-1] == maze.end
    walked = parent[:-1] if whole else parent
    ends = [i for i in range(1, len(walked)) if walked[i] not in walked[:i]]
    for _ in range(_TRIES):
        kind = rng.random()
        start, end = 0, None
        if not whole or kind < _NEW_END:
            start = rng.choice(range(len(walked)))
            points = rng.sample(planner.cells, rng.choice((0, 1, 1)))
        elif kind < _NEW_END + _NEW_BEGINNING or len(walked) < 3:
            end = rng.choice(ends) if ends else None
            points = [rng.choice(planner.cells)]
        else:
            start = rng.choice(range(len(walked)))
            most = start + _SHORT if rng.random() < 0.5 else len(walked)
            later = [i for i in ends if start < i <= most]
            end = rng.choice(later) if later else None
            points = [] if rng.random() < _DIRECT else [rng.choice(planner.cells)]
        middle = planner.leg(walked[start], (*points, maze.end if end is None else walked[end]), rng)
        route = [*parent[:start], *middle, *([] if end is None else parent[end + 1 :])]
        if len(route) - 1 <= maze.budget and route != parent:
            return route
    return None
