"""What a problem asks for, and for a maze its board with the way that an answer takes, for the detail of a
screen or a report."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import lru_cache

from evo.monitor.snapshot import WalkView
from islands.types import ProblemRecord
from problems.contract import BadAddress, Problem, ScorerFault
from problems.maze.board import Maze, simulate
from problems.maze.moves import UnreadableRoute, parse_moves
from problems.maze.problem import MazeProblem
from problems.registry import resolve

_NAMED = re.compile(r"[\w-]+:.")
"""Addresses of sets. A path names code of the viewer's, or nothing where this runs elsewhere: it is not read."""


@dataclass(frozen=True)
class Statement:
    """text: "" if the problem cannot be looked up here; its prompt has it then. board: of a maze. best_known: the best
    fitness known, None if there is none"""

    text: str = ""
    board: Maze | None = None
    best_known: float | None = None


def statement_of(record: ProblemRecord) -> Statement:
    """Nothing if the problem cannot be looked up (problem_of)."""
    problem = problem_of(record)
    if problem is None:
        return Statement()
    board = problem.maze if isinstance(problem, MazeProblem) else None
    return Statement(problem.statement(), board, problem.best_known)


def problem_of(record: ProblemRecord) -> Problem | None:
    """Looked up by address; None where it is none of a set, is not there, or is scored otherwise now than when it was
    searched."""
    return _look_up(record.address, record.fingerprint)


@lru_cache(maxsize=64)
def _look_up(address: str, fingerprint: str | None) -> Problem | None:
    if not _NAMED.match(address):
        return None
    with contextlib.suppress(BadAddress, ScorerFault, OSError, ValueError):
        found: list[Problem] = resolve(address)
        if len(found) == 1 and fingerprint in (None, found[0].fingerprint()):
            return found[0]
    return None


def walk_of(board: Maze, answer: str) -> WalkView:
    """The way of an answer; of one that cannot be read the start alone."""
    try:
        cells = simulate(board, parse_moves(answer)).cells
    except UnreadableRoute:
        cells = (board.start,)
    return WalkView(tuple(board.rows()), cells)
