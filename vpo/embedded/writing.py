"""Writing routes in the maze languages (vpo.embedded.language) as a policy would have: the inverse of decoding."""

from __future__ import annotations

from collections.abc import Sequence

from problems.maze.board import Maze, simulate
from vpo.embedded.decoding import Shown, decode_chain
from vpo.embedded.language import encode_walk
from vpo.embedded.words import COPY, EDIT_DIALECT, REST, grid_of


def write_routes(maze: Maze, routes: Sequence[str], prompt: str, dialect: str) -> str | None:
    """The chain that answers `prompt` with these move lists; None where the language cannot say one of them.

    In the edit language a route is one change of the parent shown: what it begins and ends with is copied.
    """
    shown = Shown.of(prompt) if dialect == EDIT_DIALECT else None
    words = [word for moves in routes for word in _route(maze, moves, shown)]
    text = " ".join(words)
    return text if decode_chain(text, prompt) == list(routes) else None


def _route(maze: Maze, moves: str, shown: Shown | None) -> list[str]:
    walk = simulate(maze, moves)
    written = encode_walk(walk, moves, maze.size)
    if shown is None:
        return written
    begin = _alike(shown.moves, moves)
    end = _alike(shown.moves[begin:][::-1], moves[begin:][::-1])
    # a copy goes on from the first visit of a cell
    while end and shown.cells.index(shown.cells[len(shown.moves) - end]) != len(shown.moves) - end:
        end -= 1
    name = grid_of(maze.size).names[shown.cells[begin]]
    copied = [f"{COPY}{begin}", name] if begin else []
    return [written[0], *copied, *written[begin + 1 : len(written) - end], *([REST] if end else [])]


def _alike(one: str, other: str) -> int:
    """How many moves two lists begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
