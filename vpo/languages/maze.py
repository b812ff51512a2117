"""The maze languages as entry points of "evo.dialects" (vpo.languages.maze_words has their words)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os.path import commonprefix
from pathlib import Path

from problems.contract import Problem
from problems.maze.board import Maze, UnreadableRoute, parse_moves, simulate
from problems.maze.problem import MazeProblem
from vpo.languages import maze_words
from vpo.languages.contract import StartGrammar, require
from vpo.languages.maze_words import (
    COPY,
    DIALECT,
    EDIT_DIALECT,
    REST,
    Shown,
    decode_chain,
    encode_prompt,
    encode_walk,
    grid_of,
)

CHECKPOINTS = Path(__file__).parent / "checkpoints"


@dataclass
class MazeDialect:
    name: str
    speaks_of: str = "mazes"
    answer_format: str = "route"
    example: str = "maze:test/0"
    checkpoints: Mapping[str, Path] = field(default_factory=dict)

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, MazeProblem)

    def vocabulary(self) -> tuple[str, ...]:
        return maze_words.vocabulary(self.name)

    def most_tokens(self, answers: int) -> int:
        return maze_words.most_tokens(answers)

    def prompt(self, problem: Problem, parent: str, answers: int) -> str:
        board = require(problem, MazeProblem, self).maze
        try:
            moves = parse_moves(parent) if parent else None
        except UnreadableRoute:
            moves = None
        return encode_prompt(board, moves, answers, self.name)

    def read(self, text: str, prompt: str) -> list[str]:
        return decode_chain(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        return write_routes(require(problem, MazeProblem, self).maze, answers, prompt, self.name)

    @property
    def grammar(self) -> StartGrammar | None:
        """That of edits. Routes of maze-compact are free, so that any engine can sample them."""
        if self.name != EDIT_DIALECT:
            return None
        from vpo.languages.maze_grammar import MazeGrammar

        return partial(MazeGrammar, len(self.vocabulary()))


def write_routes(maze: Maze, routes: Sequence[str], prompt: str, dialect: str) -> str | None:
    """The chain that answers `prompt` with these move lists; None if the language cannot express one of them.

    In the edit language a route is one change of the parent shown: its beginning and end are copied.
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
    begin = len(commonprefix((shown.moves, moves)))
    end = len(commonprefix((shown.moves[begin:][::-1], moves[begin:][::-1])))
    # a copy continues from the first visit of a cell
    while end and shown.cells.index(shown.cells[len(shown.moves) - end]) != len(shown.moves) - end:
        end -= 1
    name = grid_of(maze.size).names[shown.cells[begin]]
    copied = [f"{COPY}{begin}", name] if begin else []
    return [written[0], *copied, *written[begin + 1 : len(written) - end], *([REST] if end else [])]


COMPACT = MazeDialect(DIALECT, checkpoints={name: CHECKPOINTS / name for name in ("base", "grpo", "vpo")})
EDIT = MazeDialect(EDIT_DIALECT, checkpoints={"edit-solve": CHECKPOINTS / "edit-solve"})
