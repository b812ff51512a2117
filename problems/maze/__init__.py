"""Mazes, the VPO paper's and larger ones: board and walk, exact optimum, planner, problems and their sets."""

from problems.maze.board import Maze, Walk, fitness_of, simulate
from problems.maze.generator import generate
from problems.maze.moves import UnreadableRoute, parse_moves
from problems.maze.problem import MazeProblem
from problems.maze.rules import PAPER, ZONES, Rules
from problems.maze.sets import problem_set

__all__ = [
    "PAPER",
    "ZONES",
    "Maze",
    "MazeProblem",
    "Rules",
    "UnreadableRoute",
    "Walk",
    "fitness_of",
    "generate",
    "parse_moves",
    "problem_set",
    "simulate",
]
