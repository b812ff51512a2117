"""The token languages of the embedded policies: what one has to offer, and what languages share.

An entry point of the group "evo.dialects" adds a language; it has the name of the language's prompt format. The maze
languages (vpo.languages.maze) register like any other.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from problems.address import did_you_mean
from problems.contract import BadAddress, Problem
from problems.entry_points import find_entry_points, load_entry_point

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

DIALECT_ENTRY_POINTS = "evo.dialects"
DIALECT_KEY = "evo_dialect"
"""Where a checkpoint's config.json names its prompt format."""
EMBEDDED_PREFIX = "embedded:"
PAD, UNKNOWN, STOP = SPECIAL = ("<pad>", "<unk>", "<eos>")
PARENT = "par"
"""Opens the parent in a prompt."""
LONGEST_CHAIN = 5

_AnyProblem = TypeVar("_AnyProblem", bound=Problem)


class AnswerGrammar(ABC):
    """What may come next in each row of a batch. A row that has left the language may have any token.

    tables: each (rows, ...), what the row's prompt says; they stay
    state: (rows, columns) integers, which `advance` replaces by `_move_to`
    """

    def __init__(self, tables: Sequence[torch.Tensor], state: torch.Tensor) -> None:
        self._tables = list(tables)
        self._state = state
        self._allowed: torch.Tensor | None = None  # of the state, once it was asked for

    def allowed(self) -> torch.Tensor:
        """(rows, words) bool: the words that may come next. Not to be written to."""
        if self._allowed is None:
            self._allowed = self._find_allowed()
        return self._allowed

    @abstractmethod
    def _find_allowed(self) -> torch.Tensor: ...

    @abstractmethod
    def advance(self, tokens: torch.Tensor) -> None:
        """Each row has this word next. tokens: (rows,)"""

    def _move_to(self, state: torch.Tensor) -> None:
        self._state, self._allowed = state, None

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but these."""
        self._tables = [table[rows] for table in self._tables]
        self._move_to(self._state[rows])


class StartGrammar(Protocol):
    """Begins the grammar of rows that answer these prompts (their token ids). row: (rows,) the prompt of each row"""

    def __call__(self, prompts: Sequence[npt.NDArray[np.int32]], row: torch.Tensor) -> AnswerGrammar: ...


class Dialect(Protocol):
    """A token language.

    name: its prompt format
    speaks_of: its kind of problem, in the plural
    answer_format: of its problems
    example: the address of one of its problems
    checkpoints: its embedded policies, by name
    """

    name: str
    speaks_of: str
    answer_format: str
    example: str
    checkpoints: Mapping[str, Path]

    def understands(self, problem: Problem) -> bool:
        """Whether the problem is of this language's kind."""

    def vocabulary(self) -> tuple[str, ...]:
        """Every token, in the order of its id."""

    def most_tokens(self, answers: int) -> int:
        """Tokens that suffice for a chain of `answers` answers."""

    def prompt(self, problem: Problem, parent: str, answers: int) -> str:
        """The prompt for `answers` answers, with the parent unless it is "" or unreadable.

        Raises ValueError, one line, for problems and numbers of answers outside the language.
        """

    def read(self, text: str, prompt: str) -> list[str]:
        """The answers of any chain in order, repeats kept, empty ones left out."""

    def write(self, problem: Problem, answers: Sequence[str], prompt: str) -> str | None:
        """The chain that `read` reads as these answers, None if the language cannot express one of them."""

    @property
    def grammar(self) -> StartGrammar | None:
        """Begins the grammar of answers; None if any token may come next."""


@cache
def open_dialect(name: str) -> Dialect:
    """The token language of this prompt format. Raises BadAddress if nothing installed has it."""
    point = find_entry_points(DIALECT_ENTRY_POINTS).get(name)
    if point is None:
        raise BadAddress(f"the token language {name!r} is not installed (entry points {DIALECT_ENTRY_POINTS})")
    dialect: Dialect = load_entry_point(point, f"dialect {name!r}")
    return dialect


@cache
def dialect_names() -> frozenset[str]:
    """Every installed language, by the name of its prompt format. Cached: rollouts are parsed by the thousand."""
    return frozenset(find_entry_points(DIALECT_ENTRY_POINTS))


def shipped() -> dict[str, Path]:
    """The folders of the policies in the package and its plug-ins, by name, `base` for embedded:base."""
    brought = [open_dialect(name).checkpoints for name in sorted(dialect_names())]
    return {name: checkpoints[name] for checkpoints in brought for name in sorted(checkpoints)}


def checkpoint_path(name: str) -> Path:
    """The folder of an embedded policy, named `base` or `embedded:base`. Raises BadAddress if there is none of that
    name."""
    short = name.removeprefix(EMBEDDED_PREFIX)
    folders = shipped()
    if short not in folders:
        known = [EMBEDDED_PREFIX + other for other in sorted(folders)]
        hint = did_you_mean(EMBEDDED_PREFIX + short, known, most=1, like=0.8)
        raise BadAddress(
            f"no policy {EMBEDDED_PREFIX}{short} ships with this version; there is {', '.join(known)}{hint}"
        )
    return folders[short]


def dialect_of(folder: str | Path) -> str:
    """The dialect that a checkpoint folder's config.json names, "chat" if it names none. Raises BadAddress, one
    line, on a file that cannot be read."""
    path = Path(folder) / "config.json"
    if not path.is_file():
        return "chat"
    try:
        return str(json.loads(path.read_text(encoding="utf-8")).get(DIALECT_KEY, "chat"))
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise BadAddress(f"{path} cannot be read as a model's configuration: {error}") from None


def require(problem: Problem, kind: type[_AnyProblem], dialect: Dialect) -> _AnyProblem:
    """The problem, if it is of the kind that a language is about. Raises ValueError."""
    if not isinstance(problem, kind):
        raise ValueError(f"{problem.name}: {dialect.name} is about {dialect.speaks_of}")
    return problem
