"""The token languages of the embedded policies behind one interface: what is asked in them, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from problems.contract import Problem
from problems.maze.board import simulate
from problems.maze.moves import UnreadableRoute, parse_moves
from problems.maze.problem import MazeProblem
from problems.musique.problem import MusiqueProblem
from vpo.embedded import words as maze
from vpo.embedded.decoding import decode_chain
from vpo.embedded.language import encode_prompt, encode_walk
from vpo.embedded.musique import language as musique
from vpo.embedded.musique import words as musique_words
from vpo.embedded.writing import write_routes
from vpo.policies.prompt_formats import MAZE_FORMATS, MUSIQUE_FORMAT

if TYPE_CHECKING:
    import numpy as np

_P = TypeVar("_P", bound=Problem)


class Dialect(Protocol):
    """A token language.

    name: its prompt format
    speaks_of: what its problems are, in the plural
    answer_format: of its problems
    """

    name: str
    speaks_of: str
    answer_format: str

    def understands(self, problem: Problem) -> bool:
        """Whether it is of the kind that this language is about."""
        ...

    def vocabulary(self) -> tuple[str, ...]:
        """Every token, in the order of its id."""
        ...

    def most_tokens(self, answers: int) -> int:
        """Tokens that suffice for a chain of `answers` answers."""
        ...

    def prompt(self, problem: Problem, parent: str, rewards: Sequence[float] | None, answers: int) -> str:
        """What asks for `answers` answers, showing a parent with its reward vector unless it is "" or unreadable.

        Raises ValueError, one line, for problems and numbers of answers that there are no words for.
        """
        ...

    def prefill(self, problem: Problem, parent: str, rng: np.random.Generator) -> str:
        """The beginning of the parent's answer, "" where it cannot be begun."""
        ...

    def read(self, text: str, prompt: str) -> list[str]:
        """The answers of a chain in order, repeats kept, empty ones left out; whatever the text holds."""
        ...

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        """The chain that `read` reads as these answers, None where the language cannot say one of them."""
        ...


@dataclass
class MazeDialect:
    name: str
    speaks_of: str = "mazes"
    answer_format: str = "route"

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, MazeProblem)

    def vocabulary(self) -> tuple[str, ...]:
        return maze.vocabulary(self.name)

    def most_tokens(self, answers: int) -> int:
        return maze.most_tokens(answers)

    def prompt(self, problem: Problem, parent: str, rewards: Sequence[float] | None, answers: int) -> str:
        board = _a(problem, MazeProblem, self).maze
        try:
            moves = parse_moves(parent) if parent else None
        except UnreadableRoute:
            moves = None
        return encode_prompt(board, moves, rewards if moves else None, answers, self.name)

    def prefill(self, problem: Problem, parent: str, rng: np.random.Generator) -> str:
        """A chain that has come as far as some step inside its first answer, which walks as `parent` does until there;
        "" where the parent is too short to be cut."""
        board = _a(problem, MazeProblem, self).maze
        try:
            moves = parse_moves(parent)
        except UnreadableRoute:
            return ""
        words = encode_walk(simulate(board, moves), moves, board.size)
        return " ".join(words[: rng.integers(2, len(words) - 1)]) if len(words) > 3 else ""

    def read(self, text: str, prompt: str) -> list[str]:
        return decode_chain(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        return write_routes(_a(problem, MazeProblem, self).maze, answers, prompt, self.name)


@dataclass
class MusiqueDialect:
    name: str = MUSIQUE_FORMAT
    speaks_of: str = "made-up questions (musique:synthetic)"
    answer_format: str = "tagged"

    def understands(self, problem: Problem) -> bool:
        return isinstance(problem, MusiqueProblem)

    def vocabulary(self) -> tuple[str, ...]:
        return musique_words.WORDS

    def most_tokens(self, answers: int) -> int:
        return musique_words.most_tokens(answers)

    def prompt(self, problem: Problem, parent: str, rewards: Sequence[float] | None, answers: int) -> str:
        asked = _a(problem, MusiqueProblem, self)
        facts = musique.facts_of(asked)
        shown = musique.encode_parent(parent, facts) if parent else []
        marks = problem.score(parent).rewards if shown and rewards is None else rewards or ()
        return musique.encode_prompt(musique.question_of(asked), facts, shown, marks, answers)

    def prefill(self, problem: Problem, parent: str, rng: np.random.Generator) -> str:
        """The first answer as far as some word of it."""
        asked = _a(problem, MusiqueProblem, self)
        words = musique.encode_answer(parent, musique.question_of(asked), musique.facts_of(asked))
        return " ".join([musique_words.ANSWER, *words[: rng.integers(1, len(words))]]) if words else ""

    def read(self, text: str, prompt: str) -> list[str]:
        return musique.decode_chain(text, prompt)

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        asked = _a(problem, MusiqueProblem, self)
        question, facts = musique.question_of(asked), musique.facts_of(asked)
        said = (musique.encode_answer(text, question, facts) for text in answers)
        words = [word for answer in said for word in (musique_words.ANSWER, *answer)]
        text = " ".join(words)
        return text if self.read(text, prompt) == list(answers) else None


def _a(problem: Problem, kind: type[_P], dialect: Dialect) -> _P:
    if not isinstance(problem, kind):
        raise ValueError(f"{problem.name}: {dialect.name} is about {dialect.speaks_of}")
    return problem


DIALECTS: Mapping[str, Dialect] = {
    **{name: MazeDialect(name) for name in MAZE_FORMATS},
    MUSIQUE_FORMAT: MusiqueDialect(),
}
