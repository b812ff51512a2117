"""A planner without learning: random shortest paths through random way-points.

It decided which mazes are hard (problems.maze.sets), and the embedded base policy was trained to imitate it. It uses
only walls, E and the budget, never gold, diamonds or lava.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from problems.maze.board import Maze

_WAY_POINTS = (0, 1, 2)
"""How many way-points a route may have, each number equally likely."""
_TRIES = 20


class Planner:
    """Routes on one maze. Distances are worked out once per target and kept; not for several threads at once."""

    def __init__(self, maze: Maze) -> None:
        self.maze = maze
        self._distances: dict[int, list[int]] = {}
        to_end = self.steps_to(maze.end)
        self.cells = tuple(
            cell for cell, steps in enumerate(to_end) if steps > 0 and self.steps_to(maze.start)[cell] >= 0
        )
        """Possible way-points: the open cells from which E can be reached, without E itself."""

    def route(self, rng: random.Random) -> list[int]:
        """The cells, S first and E last, of a random shortest path through 0 to 2 random way-points within the
        budget. After _TRIES choices of way-points that do not fit, the way is a direct one."""
        for _ in range(_TRIES):
            points = rng.sample(self.cells, min(len(self.cells), rng.choice(_WAY_POINTS)))
            path = self.through(self.maze.start, points, self.maze.budget, rng)
            if path is not None:
                return path
        direct = self.through(self.maze.start, (), len(self.maze.tiles), rng)
        if direct is None:
            raise ValueError("there is no way from S to E")
        return direct

    def through(self, cell: int, points: Sequence[int], budget: int, rng: random.Random) -> list[int] | None:
        """The cells, `cell` first, of a random shortest path through `points` to E; None if it is over `budget`."""
        stops = (cell, *points, self.maze.end)
        legs = [self.steps_to(b)[a] for a, b in zip(stops, stops[1:], strict=False)]
        if min(legs) < 0 or sum(legs) > budget:
            return None
        return self.leg(cell, stops[1:], rng)

    def leg(self, cell: int, stops: Sequence[int], rng: random.Random) -> list[int]:
        """The cells, `cell` first, of a random shortest path from stop to stop, each of which can be reached."""
        path = [cell]
        for target in stops:
            self.descend(path, target, rng)
        return path

    def descend(self, path: list[int], target: int, rng: random.Random) -> None:
        """Extend `path` by a random shortest way to `target`."""
        steps = self.steps_to(target)
        cell = path[-1]
        while cell != target:
            cell = rng.choice([n for n in self.maze.neighbours[cell] if 0 <= steps[n] < steps[cell]])
            path.append(cell)

    def steps_to(self, target: int) -> list[int]:
        """Steps from every cell to `target` on ways that do not pass E, where a walk would end."""
        if target not in self._distances:
            end = frozenset() if target == self.maze.end else frozenset((self.maze.end,))
            self._distances[target] = self.maze.distances(target, end)
        return self._distances[target]


def moves_between(maze: Maze, cells: Sequence[int]) -> str:
    """The move list that visits `cells`, each one move from the last."""
    letters = []
    for cell, target in zip(cells, cells[1:], strict=False):
        letters.append(next(move for move, other in maze.after[cell].items() if other == target))
    return "".join(letters)


def draw_route(maze: Maze, rng: random.Random) -> str:
    """The moves of a planner's route, which reaches E."""
    return moves_between(maze, Planner(maze).route(rng))
