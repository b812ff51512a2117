"""The compact maze languages that the embedded policies read and write: one token per fact.

"maze-compact":

    S00 E88 t27 #10 #12 ... D07 D15 ... L43 ... G60 ...      the board: start, end, budget, walls and items by cell
    par >00 01 02 12 ... 88 ok g0 d2 l1                      a parent route and its reward vector as counts (optional)
    m3                                                       the number of answers requested; the prompt ends here
    >00 10 20 ... 88 >00 01 02 ... 88 <eos>                  the chain: `>` and the start cell open an answer

"maze-edit" is the same and can copy from the parent:

    par >00 k1 01 k2 02 k3 12 ... 88 ok                      the parent with its steps counted. Its vector is left out:
                                                             it changes nothing (bench/results/mutation.md)
    >00 k3 12 22 32 42 = >00 10 20 ... <eos>                 `k3 12`: on as the parent goes, up to its step 3, to 12;
                                                             `=`: on as the parent goes from here, to its end

An answer with a copy is an edit: the cells between the copies are new, and the route is stored in full. A copy
follows the parent from its first visit of the route's current cell. If the parent shown reaches E, an answer has at
most MOST_NEW new steps and ends before another, so it must use the parent. With any other prompt a route may be new
from beginning to end. Samplers and trainers keep to answers that end at E within the budget
(vpo.languages.maze_grammar).

A cell is two digits, row and column from 0; rows and columns 9, 10, 11, 12 of a large board are 9, a, b, c. A route is
written as the cells that it enters, which shows the model its position; a bump into a wall is `^U`, `^D`, `^L` or `^R`.
The bonus tile, in the centre of 9x9 boards and worth nothing, is not written. A prompt is 23 to 40 tokens without a
parent and at most about 90 with one.

maze-edit has words for large boards too: S0c, Ec0, treasures J37 and P9a in addition to gold and diamonds. Its prompts
are 30 to 50 tokens there and at most about 150 with a parent.

Words of maze-edit follow those of maze-compact, and words of large boards come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from problems.maze.board import (
    DIAMOND,
    END,
    GOLD,
    JADE,
    LAVA,
    MOVES,
    PAPER,
    PEARL,
    SIZE,
    START,
    WALL,
    Maze,
    Walk,
    beside,
    simulate,
)
from problems.maze.generator import LARGE_SIZE
from vpo.languages.contract import LONGEST_CHAIN, PARENT, SPECIAL

DIALECT, EDIT_DIALECT = "maze-compact", "maze-edit"
BOARD_SIZES: Mapping[str, tuple[int, ...]] = {DIALECT: (SIZE,), EDIT_DIALECT: (SIZE, LARGE_SIZE)}
"""Per language, the sizes of the boards that it has words for."""
REACHED, FAILED = "ok", "fail"
COPY, REST = "k", "="
MOST_ITEMS = 5
BUDGETS = range(16, 49)
"""Budgets that have a token; another board's budget is written as the nearest."""
COUNTED = range(1, BUDGETS[-1] + 1)
"""Steps of a parent that have a token."""
MOST_NEW = 24
"""New steps of an edit. Random edits of this size solve as many of maze:hard and maze:compromise in 1,000 iterations as
unbounded ones; of 12, a third of the mazes whose optimum is a compromise (bench/results/mutation.md)."""
LEFT = range(33)
"""Steps left by a parent, which had a token once: the shipped policy's words keep their places."""
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
    small, whole = grid_of(SIZE), grid_of(LARGE_SIZE)
    words = [
        *SPECIAL,
        *(role + name for role in _ON_CELLS for name in small.names),
        *(role + small.names[corner] for role in _ON_CORNERS for corner in small.corners),
        *("^" + move for move in MOVES),
        *(f"t{budget}" for budget in BUDGETS),
        *(f"m{answers}" for answers in range(1, LONGEST_CHAIN + 1)),
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


def size_of(prompt: str) -> int:
    """The size of the board in a prompt, from its words for S and E; SIZE if it shows none."""
    corners = [word[1:] for word in prompt.split()[:2] if word[:1] in (START, END)]
    far = max((_DIGITS.find(digit) for name in corners for digit in name), default=0)
    return far + 1 if far + 1 in BOARD_SIZES[EDIT_DIALECT] else SIZE


def most_tokens(answers: int) -> int:
    """Tokens that suffice for a chain of `answers` routes on any board with a budget of up to BUDGETS[-1]."""
    return answers * (BUDGETS[-1] + 1) + 1


_WRITTEN = (WALL, GOLD, DIAMOND, LAVA, JADE, PEARL)
"""Tiles that a prompt names."""


def encode_prompt(
    maze: Maze,
    parent: str | None = None,
    answers: int = 3,
    dialect: str = DIALECT,
) -> str:
    """The prompt for `answers` routes, as a token string.

    parent: a move list (letters of MOVES); without it the prompt shows no parent
    Raises ValueError for a board outside the language (of a size not in BOARD_SIZES, S or E off the corners) and for a
    number of answers outside 1..5.
    """
    sizes = BOARD_SIZES[dialect]
    if maze.size not in sizes or (dialect == DIALECT and maze.rules != PAPER) or not _cornered(maze):
        boards = " or ".join(f"{size}x{size}" for size in sizes)
        raise ValueError(f"the embedded policy reads {boards} boards with S and E in corners only")
    if not 1 <= answers <= LONGEST_CHAIN:
        raise ValueError(f"the embedded policy writes 1 to {LONGEST_CHAIN} answers a chain, not {answers}")
    names, budget = grid_of(maze.size).names, min(max(maze.budget, BUDGETS[0]), BUDGETS[-1])
    words = [START + names[maze.start], END + names[maze.end], f"t{budget}"]
    words += [tile + names[cell] for cell, tile in enumerate(maze.tiles) if tile in _WRITTEN]
    if parent:
        walk = simulate(maze, parent)
        shown = encode_walk(walk, parent, maze.size)
        if dialect == EDIT_DIALECT:
            counts = [[f"{COPY}{step}"] * (step in COUNTED) for step in range(len(shown))]
            shown = [word for count, step in zip(counts, shown, strict=True) for word in (*count, step)]
        told = encode_rewards(maze, walk.rewards)
        words += [PARENT, *shown, *(told[:1] if dialect == EDIT_DIALECT else told)]
    words.append(f"m{answers}")
    return " ".join(words)


def _cornered(maze: Maze) -> bool:
    return {maze.start, maze.end} <= set(grid_of(maze.size).corners)


def encode_walk(walk: Walk, moves: str, size: int = SIZE) -> list[str]:
    """The tokens of one route on a board of `size`, as far as it was walked."""
    names, bumps = grid_of(size).names, set(walk.bumps)
    words = [">" + names[walk.cells[0]]]
    for step, cell in enumerate(walk.cells[1:], 1):
        words.append("^" + moves[step - 1] if step in bumps else names[cell])
    return words


def encode_rewards(maze: Maze, rewards: Sequence[float]) -> list[str]:
    """A reward vector as counts: `ok g2 d0 l1`, or `fail` if E was not reached. Thrift is left out."""
    completion, *shares = rewards
    if completion <= 0:
        return [FAILED]
    groups = dict(zip(maze.rules.treasures, maze.treasures, strict=True))
    counts = [share * len(cells) for share, cells in zip(shares, groups.values(), strict=False)]
    counts.append((1 - shares[len(groups)]) * len(maze.lava))
    return [
        REACHED,
        *(f"{COUNTS[t]}{min(max(round(n), 0), MOST_ITEMS)}" for t, n in zip((*groups, LAVA), counts, strict=True)),
    ]


@dataclass(frozen=True)
class Shown:
    """A parent, as the source of copies.

    moves: its move list as far as it was walked; cells: (len(moves) + 1,) the cell after each, the start first
    editable: reaches E and has its steps counted, so an answer must be an edit of it
    """

    moves: str
    cells: tuple[int, ...]
    editable: bool

    @classmethod
    def of(cls, prompt: str) -> Shown | None:
        """The parent that a prompt shows, None if it shows none."""
        words, grid = prompt.split(), grid_of(size_of(prompt))
        if PARENT not in words:
            return None
        first = words.index(PARENT) + 1
        moves, cells, counted, reached = "", [grid.numbers[words[first][1:]]], False, False
        for word in words[first + 1 :]:
            if word in (REACHED, FAILED):
                reached = word == REACHED
                break
            if word.startswith(COPY):
                counted = True
                continue
            bump = word[0] == "^"
            target = cells[-1] if bump else grid.numbers[word]
            moves += word[1:] if bump else grid.moves[cells[-1], target]
            cells.append(target)
        return cls(moves, tuple(cells), counted and reached)

    def copied(self, cell: int, word: str) -> tuple[str, int]:
        """The moves that a copy adds after the first visit of `cell`, "" for none, and the cell where they end."""
        number = word.removeprefix(COPY)
        end = len(self.moves) if word == REST else int(number) if number.isdecimal() else 0
        if cell not in self.cells or end > len(self.moves):
            return "", cell
        return self.moves[self.cells.index(cell) : end], self.cells[end]


def decode_chain(text: str, prompt: str = "") -> list[str]:
    """The move lists of a chain's answers, in order, empty ones left out.

    An answer ends where the next one opens, or at the first token that no move explains (a cell not adjacent to the
    last one, a copy that the parent does not allow, a new step beyond MOST_NEW, a token outside routes). The last cell
    of a copy may be named after it. Text before the first answer is skipped. prompt: of the chain, for its board's size
    and parent; without it, a 9x9 board and no parent
    """
    parent, grid = Shown.of(prompt), grid_of(size_of(prompt))
    answers: list[str] = []
    moves, at = "", -1  # at: the cell that the route has reached, -1 outside an answer
    copied, new = False, 0
    most = MOST_NEW if parent is not None and parent.editable else len(text)
    for word in text.split():
        if word.startswith(">"):
            answers.append(moves)
            moves, at, new = "", grid.numbers.get(word[1:], -1), 0
        elif at >= 0:
            if copied and word == grid.names[at]:
                copied = False
                continue
            copied = False
            if word == REST or word.startswith(COPY):
                move, target = parent.copied(at, word) if parent is not None else ("", at)
                copied = True
            elif new == most:
                move, target = "", at
            elif word[0] == "^" and word[1:] in MOVES:
                new, move, target = new + 1, word[1:], at
            else:
                new, target = new + 1, grid.numbers.get(word, -1)
                move = grid.moves.get((at, target), "")
            moves, at = (moves + move, target) if move else (moves, -1)
    answers.append(moves)
    return [answer for answer in answers if answer]
