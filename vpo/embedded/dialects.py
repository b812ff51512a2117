"""The token languages of the embedded policies behind one interface: prompts, parsing, and the lessons of a base
policy.

The maze languages are here. Entry points of the group "evo.dialects" add others; an entry point has the name of the
language's prompt format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from problems.contract import BadAddress, Problem
from problems.entry_points import find_entry_points, load_entry_point
from problems.maze.board import Maze, simulate
from problems.maze.moves import UnreadableRoute, parse_moves
from problems.maze.problem import MazeProblem
from vpo.embedded import words as maze
from vpo.embedded.decoding import Shown, decode_chain
from vpo.embedded.language import encode_prompt, encode_walk
from vpo.embedded.words import COPY, EDIT_DIALECT, REST, grid_of
from vpo.policies.prompt_formats import DIALECT_ENTRY_POINTS

if TYPE_CHECKING:
    from collections.abc import Container

    import numpy as np
    import numpy.typing as npt
    import torch
    from transformers import LlamaForCausalLM

    from vpo.embedded.lesson import Teacher

_P = TypeVar("_P", bound=Problem)


class AnswerGrammar(Protocol):
    """What may come next in each row of a batch. A row that has left the language may have any token."""

    def allowed(self) -> torch.Tensor:
        """(rows, vocabulary) bool."""
        ...

    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this token next. tokens: (rows,)"""
        ...

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these."""
        ...

    def join(self, other: Self) -> None:
        """Append another grammar's rows."""
        ...


class StartGrammar(Protocol):
    """Begins the grammar of rows that answer these prompts (their token ids). row: (rows,) the prompt of each row"""

    def __call__(self, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor) -> AnswerGrammar: ...


class Dialect(Protocol):
    """A token language.

    name: its prompt format
    speaks_of: its kind of problem, in the plural
    answer_format: of its problems
    example: the address of one of its problems; searched: the address of a set to search
    checkpoints: the embedded policies of a plug-in, by name
    """

    name: str
    speaks_of: str
    answer_format: str
    example: str
    searched: str
    checkpoints: Mapping[str, Path]

    def understands(self, problem: Problem) -> bool:
        """Whether the problem is of this language's kind."""
        ...

    def vocabulary(self) -> tuple[str, ...]:
        """Every token, in the order of its id."""
        ...

    def most_tokens(self, answers: int) -> int:
        """Tokens that suffice for a chain of `answers` answers."""
        ...

    def prompt(self, problem: Problem, parent: str, rewards: Sequence[float] | None, answers: int) -> str:
        """The prompt for `answers` answers, with the parent and its reward vector unless the parent is "" or
        unreadable.

        Raises ValueError, one line, for problems and numbers of answers outside the language.
        """
        ...

    def prefill(self, problem: Problem, parent: str, rng: np.random.Generator) -> str:
        """The beginning of the parent's answer, "" if it cannot be cut."""
        ...

    def read(self, text: str, prompt: str) -> list[str]:
        """The answers of any chain in order, repeats kept, empty ones left out."""
        ...

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        """The chain that `read` reads as these answers, None if the language cannot express one of them."""
        ...

    @property
    def grammar(self) -> StartGrammar | None:
        """Begins the grammar of answers; None if any token may come next."""
        ...


@runtime_checkable
class TaughtDialect(Dialect, Protocol):
    """A dialect in which a base policy can be trained.

    language: its name in `evo pretrain`
    pretraining: the settings of PretrainConfig that differ from its defaults
    """

    language: str
    pretraining: Mapping[str, Any]

    def teacher(self, seed: int, held_out: Container[str] | None, large_share: float) -> Teacher:
        """The lessons of a base policy. held_out: tiles of boards that no lesson may show; None: those of all sets"""
        ...

    def place(self, model: LlamaForCausalLM) -> None:
        """Change the starting weights, with torch's random numbers, so that related words start near each other."""
        ...

    def describe_policy(self, large_boards: bool) -> str:
        """The behaviour of a pretrained policy, as the end of the sentence "A Llama decoder of N parameters"."""
        ...


@dataclass
class MazeDialect:
    name: str
    language: str
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    speaks_of: str = "mazes"
    answer_format: str = "route"
    example: str = "maze:test/0"
    searched: str = "maze:test"
    checkpoints: Mapping[str, Path] = field(default_factory=dict)

    def teacher(self, seed: int, held_out: Container[str] | None, large_share: float) -> Teacher:
        from problems.maze.sets import held_out_tiles
        from vpo.embedded.lessons import Lessons

        return Lessons(seed, held_out_tiles() if held_out is None else held_out, self.name, large_share)

    def place(self, model: LlamaForCausalLM) -> None:
        _place_cells(model, self.vocabulary(), maze.SIZES[self.name][-1])

    def describe_policy(self, large_boards: bool) -> str:
        boards = "9x9 and 13x13" if large_boards else "9x9"
        edits = "or edits of the route that it is shown, " if self.name == maze.EDIT_DIALECT else ""
        return f"""that writes routes {edits}through {boards} mazes, in the
`{self.name}` language (`vpo/embedded/language.py`). It imitates a planner that walks random shortest paths
through random way-points and knows nothing of gold, diamonds or lava; training by reward starts from it."""

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, MazeProblem)

    def vocabulary(self) -> tuple[str, ...]:
        return maze.vocabulary(self.name)

    def most_tokens(self, answers: int) -> int:
        return maze.most_tokens(answers)

    def prompt(self, problem: Problem, parent: str, rewards: Sequence[float] | None, answers: int) -> str:
        board = require(problem, MazeProblem, self).maze
        try:
            moves = parse_moves(parent) if parent else None
        except UnreadableRoute:
            moves = None
        return encode_prompt(board, moves, rewards if moves else None, answers, self.name)

    def prefill(self, problem: Problem, parent: str, rng: np.random.Generator) -> str:
        """A chain cut inside its first answer, which walks as `parent` does up to there; "" if the parent is too
        short to cut."""
        board = require(problem, MazeProblem, self).maze
        try:
            moves = parse_moves(parent)
        except UnreadableRoute:
            return ""
        words = encode_walk(simulate(board, moves), moves, board.size)
        return " ".join(words[: rng.integers(2, len(words) - 1)]) if len(words) > 3 else ""

    def read(self, text: str, prompt: str) -> list[str]:
        return decode_chain(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        return write_routes(require(problem, MazeProblem, self).maze, answers, prompt, self.name)

    @property
    def grammar(self) -> StartGrammar | None:
        """That of edits. Routes of maze-compact are free, so that any engine can sample them."""
        if self.name != EDIT_DIALECT:
            return None
        from vpo.embedded.answer_grammar import MazeGrammar

        return partial(MazeGrammar, len(self.vocabulary()))


def require(problem: Problem, kind: type[_P], dialect: Dialect) -> _P:
    """The problem, if it is of the kind that a language is about. Raises ValueError."""
    if not isinstance(problem, kind):
        raise ValueError(f"{problem.name}: {dialect.name} is about {dialect.speaks_of}")
    return problem


def _place_cells(model: LlamaForCausalLM, words: Sequence[str], size: int) -> None:
    """Start the tokens of one cell from a common vector, and those of near cells from near ones.

    Wall, gold, diamond, lava and visit tokens are five words for the same 81 places; from independent random vectors,
    training would have to learn that 81 times. Afterwards they train freely like all other weights. size: of the
    largest board
    """
    import torch

    waves = torch.arange(size)[:, None] * torch.pi * torch.tensor([1.0, 2.0, 4.0]) / size
    line = torch.cat([waves.sin(), waves.cos(), torch.eye(size)], dim=1)  # (size, size + 6), of a row or a column
    features = torch.cat([line[:, None].expand(size, size, -1), line[None].expand(size, size, -1)], dim=2)
    features = torch.cat([features.reshape(size * size, -1), torch.eye(size * size)], dim=1)
    tables: list[torch.nn.Parameter] = [model.model.embed_tokens.weight, model.lm_head.weight]
    for table in tables:
        spread = table.detach().std()
        places = features @ torch.randn(features.shape[1], table.shape[1])
        places = places / places.std() * spread
        with torch.no_grad():
            for i, word in enumerate(words):
                cell = maze.cell_of(word, size)
                if cell is not None:
                    table[i] = 0.6 * table[i] + 0.8 * places[cell]


MAZE_DIALECTS: Mapping[str, Dialect] = {
    maze.DIALECT: MazeDialect(maze.DIALECT, "maze"),
    maze.EDIT_DIALECT: MazeDialect(maze.EDIT_DIALECT, "maze-edit", {"large_share": 0.5}),
}


@cache
def open_dialect(name: str) -> Dialect:
    """The token language of this prompt format. Raises BadAddress if nothing installed has it."""
    if name in MAZE_DIALECTS:
        return MAZE_DIALECTS[name]
    point = find_entry_points(DIALECT_ENTRY_POINTS).get(name)
    if point is None:
        raise BadAddress(f"the token language {name!r} is not installed (entry points {DIALECT_ENTRY_POINTS})")
    dialect: Dialect = load_entry_point(point, f"dialect {name!r}")
    return dialect


def all_dialects() -> dict[str, Dialect]:
    """Every token language, by the name of its prompt format."""
    dialects = dict(MAZE_DIALECTS)
    for name, point in find_entry_points(DIALECT_ENTRY_POINTS).items():
        dialects[name] = load_entry_point(point, f"dialect {name!r}")
    return dialects


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
    begin = _alike(shown.moves, moves)
    end = _alike(shown.moves[begin:][::-1], moves[begin:][::-1])
    # a copy continues from the first visit of a cell
    while end and shown.cells.index(shown.cells[len(shown.moves) - end]) != len(shown.moves) - end:
        end -= 1
    name = grid_of(maze.size).names[shown.cells[begin]]
    copied = [f"{COPY}{begin}", name] if begin else []
    return [written[0], *copied, *written[begin + 1 : len(written) - end], *([REST] if end else [])]


def _alike(route: str, other: str) -> int:
    """How many moves two lists begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(route, other, strict=False)) if a != b), min(len(route), len(other)))
