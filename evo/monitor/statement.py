"""What a problem asks for, and for a maze its board with the way that an answer takes, for the detail of a screen."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from functools import lru_cache

from evo.monitor.snapshot import Walk
from islands.types import ProblemRecord
from problems.contract import BadAddress, Problem, ScorerFault
from problems.maze.board import Maze, simulate
from problems.maze.moves import UnreadableRoute, parse_moves
from problems.registry import resolve

_NAMED = re.compile(r"[\w-]+:.")
"""Addresses of sets. A path names code of the viewer's, or nothing where the screen runs elsewhere: it is not read."""


@dataclass(frozen=True)
class Statement:
    """text: "" where the problem cannot be looked up here; its prompt says it then. board: of a maze."""

    text: str = ""
    board: Maze | None = None


def statement_of(record: ProblemRecord) -> Statement:
    """Looked up by address; nothing where what stands there now is scored otherwise than what was searched."""
    return _look_up(record.address, record.fingerprint)


@lru_cache(maxsize=64)
def _look_up(address: str, fingerprint: str | None) -> Statement:
    if not _NAMED.match(address):
        return Statement()
    with contextlib.suppress(BadAddress, ScorerFault, OSError, ValueError):
        found: list[Problem] = resolve(address)
        if len(found) == 1 and fingerprint in (None, found[0].fingerprint()):
            maze = getattr(found[0], "maze", None)
            return Statement(found[0].statement(), maze if isinstance(maze, Maze) else None)
    return Statement()


def walk_of(board: Maze, answer: str) -> Walk:
    """The way of an answer; of one that cannot be read the start alone."""
    try:
        cells = simulate(board, parse_moves(answer)).cells
    except UnreadableRoute:
        cells = (board.start,)
    return Walk(tuple(board.rows()), cells)
