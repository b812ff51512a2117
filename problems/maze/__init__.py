"""The maze problem of the VPO paper: board and walk, exact optimum, planner, problems and their sets."""

from problems.maze.board import OBJECTIVES, Maze, Walk, fitness_of, generate, simulate
from problems.maze.moves import UnreadableRoute, parse_moves
from problems.maze.problem import MazeProblem
from problems.maze.sets import problem_set

__all__ = [
    "OBJECTIVES",
    "Maze",
    "MazeProblem",
    "UnreadableRoute",
    "Walk",
    "fitness_of",
    "generate",
    "parse_moves",
    "problem_set",
    "simulate",
]
