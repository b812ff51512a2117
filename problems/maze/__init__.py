"""Mazes, the VPO paper's and larger ones: board and walk, exact optimum, planner, problems and their sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from problems.lazy import lazy_exports

if TYPE_CHECKING:
    from problems.maze.board import Maze as Maze
    from problems.maze.board import Walk as Walk
    from problems.maze.board import fitness_of as fitness_of
    from problems.maze.board import simulate as simulate
    from problems.maze.generator import generate as generate
    from problems.maze.moves import UnreadableRoute as UnreadableRoute
    from problems.maze.moves import parse_moves as parse_moves
    from problems.maze.problem import MazeProblem as MazeProblem
    from problems.maze.rules import PAPER as PAPER
    from problems.maze.rules import ZONES as ZONES
    from problems.maze.rules import Rules as Rules
    from problems.maze.sets import problem_set as problem_set
else:
    __getattr__, __all__ = lazy_exports(
        __name__,
        board="Maze Walk fitness_of simulate",
        generator="generate",
        moves="UnreadableRoute parse_moves",
        problem="MazeProblem",
        rules="PAPER ZONES Rules",
        sets="problem_set",
    )
