"""The words of the maze languages: cells of boards of two sizes, their items, budgets, counts.

A cell is two digits, row and column from 0; rows and columns 9, 10, 11, 12 of a large board are 9, a, b, c. The cells
of a 9x9 board are words of the larger board too, its upper left part, so a model learns both together. The words of
maze-edit follow those of maze-compact, and words of large boards come last: a checkpoint with fewer words can be
continued with more (vpo.embedded.checkpoint.fill).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from problems.maze import large
from problems.maze.board import MOVES, SIZE, beside
from problems.maze.rules import DIAMOND, END, GOLD, JADE, LAVA, PEARL, START, WALL
from vpo.policies.prompt_formats import MAZE_FORMATS

DIALECT, EDIT_DIALECT = MAZE_FORMATS
SIZES: Mapping[str, tuple[int, ...]] = {DIALECT: (SIZE,), EDIT_DIALECT: (SIZE, large.SIZE)}
"""Per language, the sizes of the boards that it has words for."""
PAD, UNKNOWN, STOP = "<pad>", "<unk>", "<eos>"
SPECIAL = (PAD, UNKNOWN, STOP)
PARENT, REACHED, FAILED = "par", "ok", "fail"
COPY, REST = "k", "="
MOST_ANSWERS = 5
MOST_ITEMS = 5
BUDGETS = range(16, 49)
"""Budgets that have a token; another board's budget is written as the nearest."""
COUNTED = range(1, BUDGETS[-1] + 1)
"""Steps of a parent that have a token."""
MOST_NEW = 24
"""New steps of an edit. Random edits of this size solve as many of maze:hard and maze:compromise in 1,000 iterations as
unbounded ones; of 12, a third of the mazes whose optimum is a compromise (bench/results/mutation.md)."""
LEFT = range(33)
"""Steps left by a parent that have a token; other numbers are written as the nearest."""
COUNTS: Mapping[str, str] = {GOLD: "g", DIAMOND: "d", LAVA: "l", JADE: "j", PEARL: "p"}

_DIGITS = "0123456789abc"
_ON_CELLS = ("", WALL, GOLD, DIAMOND, LAVA)  # roles that any cell can have; "" = entered by a route
_ON_LARGE = (JADE, PEARL)  # further words, for large boards only
_ON_CORNERS = (START, END, ">")


@dataclass(frozen=True)
class Grid:
    """The cells of a board of one size in words.

    names: by cell; numbers: the cell of a name; moves: from a cell to a neighbour; corners: of the board
    """

    size: int
    names: tuple[str, ...]
    numbers: Mapping[str, int]
    moves: Mapping[tuple[int, int], str]
    corners: tuple[int, ...]


@cache
def grid_of(size: int) -> Grid:
    """The words of a board of `size`, at most 13."""
    names = tuple(row + column for row in _DIGITS[:size] for column in _DIGITS[:size])
    return Grid(
        size,
        names,
        {name: cell for cell, name in enumerate(names)},
        {(cell, other): move for cell, around in enumerate(beside(size)) for move, other in around},
        (0, size - 1, size * (size - 1), size * size - 1),
    )


@cache
def vocabulary(dialect: str = DIALECT) -> tuple[str, ...]:
    """Every token of a language, in the order of its id."""
    small, whole = grid_of(SIZE), grid_of(large.SIZE)
    words = [
        *SPECIAL,
        *(role + name for role in _ON_CELLS for name in small.names),
        *(role + small.names[corner] for role in _ON_CORNERS for corner in small.corners),
        *("^" + move for move in MOVES),
        *(f"t{budget}" for budget in BUDGETS),
        *(f"m{answers}" for answers in range(1, MOST_ANSWERS + 1)),
        *(COUNTS[tile] + str(count) for tile in (GOLD, DIAMOND, LAVA) for count in range(MOST_ITEMS + 1)),
        PARENT,
        REACHED,
        FAILED,
    ]
    if dialect == EDIT_DIALECT:
        words += [*(f"{COPY}{step}" for step in COUNTED), REST, *(f"+{steps}" for steps in LEFT)]
        words += [
            *(role + name for role in _ON_CELLS for name in whole.names if name not in small.numbers),
            *(role + name for role in _ON_LARGE for name in whole.names),
            *(role + whole.names[corner] for role in _ON_CORNERS for corner in whole.corners[1:]),
            *(COUNTS[tile] + str(count) for tile in _ON_LARGE for count in range(MOST_ITEMS + 1)),
        ]
    return tuple(words)


def cell_of(token: str, size: int = SIZE) -> int | None:
    """The cell of a board of `size` that a token names, None if it names none."""
    name = token[1:] if token[:1] in (*_ON_CELLS[1:], *_ON_LARGE, *_ON_CORNERS) else token
    return grid_of(size).numbers.get(name)


def size_of(prompt: str) -> int:
    """The size of the board in a prompt, from its words for S and E; SIZE if it shows none."""
    corners = [word[1:] for word in prompt.split()[:2] if word[:1] in (START, END)]
    far = max((_DIGITS.find(digit) for name in corners for digit in name), default=0)
    return far + 1 if far + 1 in SIZES[EDIT_DIALECT] else SIZE


def most_tokens(answers: int) -> int:
    """Tokens that suffice for a chain of `answers` routes on any board with a budget of up to BUDGETS[-1]."""
    return answers * (BUDGETS[-1] + 1) + 1
