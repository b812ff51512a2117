"""Mazes, the VPO paper's and larger ones: board and walk, exact optimum, planner, problems and their sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems.entry_points import lazy_exports

if TYPE_CHECKING:
    from problems.maze.board import PAPER as PAPER
    from problems.maze.board import ZONES as ZONES
    from problems.maze.board import Maze as Maze
    from problems.maze.board import Rules as Rules
    from problems.maze.board import UnreadableRoute as UnreadableRoute
    from problems.maze.board import Walk as Walk
    from problems.maze.board import fitness_of as fitness_of
    from problems.maze.board import parse_moves as parse_moves
    from problems.maze.board import simulate as simulate
    from problems.maze.generator import generate as generate
    from problems.maze.problem import MazeProblem as MazeProblem
    from problems.maze.sets import problem_set as problem_set
else:
    __getattr__, __all__ = lazy_exports(
        __name__,
        board="Maze PAPER Rules UnreadableRoute Walk ZONES fitness_of parse_moves simulate",
        generator="generate",
        problem="MazeProblem",
        sets="problem_set",
    )
