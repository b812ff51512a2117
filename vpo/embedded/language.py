"""The compact maze languages that the embedded policies read and write: one token per fact.

"maze-compact":

    S00 E88 t27 #10 #12 ... D07 D15 ... L43 ... G60 ...      the board: start, end, budget, walls and items by cell
    par >00 01 02 12 ... 88 ok g0 d2 l1                      a parent route and its reward vector as counts (optional)
    m3                                                       the number of answers requested; the prompt ends here
    >00 10 20 ... 88 >00 01 02 ... 88 <eos>                  the chain: `>` and the start cell open an answer

"maze-edit" is the same and can copy from the parent:

    par >00 k1 01 k2 02 k3 12 ... 88 ok g0 d2 l1 +5          the parent with its steps counted, and the steps that it
                                                             leaves of the budget
    >00 k3 12 22 32 42 = >00 10 20 ... <eos>                 `k3 12`: on as the parent goes, up to its step 3, to 12;
                                                             `=`: on as the parent goes from here, to its end

An answer with a copy is an edit: the cells between the copies are new, and the route is stored in full. A copy
follows the parent from its first visit of the route's current cell. If the parent shown reaches E, an answer has at
most MOST_NEW new steps and ends before another, so it must use the parent. With any other prompt a route may be new
from beginning to end. Samplers and trainers keep to answers that end at E within the budget
(vpo.embedded.answer_grammar).

A cell is two digits, row and column from 0 (vpo.embedded.words). A route is written as the cells that it enters,
which shows the model its position; a bump into a wall is `^U`, `^D`, `^L` or `^R`. The bonus tile, in the centre of
9x9 boards and worth nothing, is not written. A prompt is 23 to 40 tokens without a parent and at most about 90 with
one.

maze-edit has words for large boards too: S0c, Ec0, treasures J37 and P9a in addition to gold and diamonds, and their
counts (`ok g0 d2 j3 p1 l0 +6`). Its prompts are 30 to 50 tokens there and at most about 150 with a parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from problems.maze.board import SIZE, Maze, Walk, simulate
from problems.maze.rules import DIAMOND, END, GOLD, JADE, LAVA, PAPER, PEARL, START, WALL
from vpo.embedded.words import (
    BUDGETS,
    COPY,
    COUNTED,
    COUNTS,
    DIALECT,
    EDIT_DIALECT,
    FAILED,
    LEFT,
    MOST_ANSWERS,
    MOST_ITEMS,
    PARENT,
    REACHED,
    REST,
    SIZES,
    STOP,
    grid_of,
)

_WRITTEN = (WALL, GOLD, DIAMOND, LAVA, JADE, PEARL)
"""Tiles that a prompt names."""


def encode_prompt(
    maze: Maze,
    parent: str | None = None,
    parent_rewards: Sequence[float] | None = None,
    answers: int = 3,
    dialect: str = DIALECT,
) -> str:
    """The prompt for `answers` routes, as a token string.

    parent: a move list (letters of MOVES); without it the prompt shows no parent parent_rewards: (d,) its reward
    vector; None = computed from the walk Raises ValueError for a board outside the language (of a size not in SIZES, S
    or E off the corners) and for a number of answers outside 1..5.
    """
    sizes = SIZES[dialect]
    if maze.size not in sizes or (dialect == DIALECT and maze.rules != PAPER) or not _cornered(maze):
        boards = " or ".join(f"{size}x{size}" for size in sizes)
        raise ValueError(f"the embedded policy reads {boards} boards with S and E in corners only")
    if not 1 <= answers <= MOST_ANSWERS:
        raise ValueError(f"the embedded policy writes 1 to {MOST_ANSWERS} answers a chain, not {answers}")
    names, budget = grid_of(maze.size).names, min(max(maze.budget, BUDGETS[0]), BUDGETS[-1])
    words = [START + names[maze.start], END + names[maze.end], f"t{budget}"]
    words += [tile + names[cell] for cell, tile in enumerate(maze.tiles) if tile in _WRITTEN]
    if parent:
        walk = simulate(maze, parent)
        shown = encode_walk(walk, parent, maze.size)
        if dialect == EDIT_DIALECT:
            counts = [[f"{COPY}{step}"] * (step in COUNTED) for step in range(len(shown))]
            shown = [word for count, step in zip(counts, shown, strict=True) for word in (*count, step)]
        words += [PARENT, *shown, *encode_rewards(maze, walk.rewards, parent_rewards)]
        if dialect == EDIT_DIALECT:
            words.append(f"+{min(max(maze.budget - walk.steps, LEFT[0]), LEFT[-1])}")
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


def encode_rewards(maze: Maze, walked: Sequence[float], given: Sequence[float] | None = None) -> list[str]:
    """A reward vector as counts: `ok g2 d0 l1`, or `fail` if E was not reached. Thrift is left out: the steps that
    the parent leaves are given separately."""
    completion, *shares = walked if given is None else given
    if completion <= 0:
        return [FAILED]
    groups = dict(zip(maze.rules.treasures, maze.treasures, strict=True))
    counts = [share * len(cells) for share, cells in zip(shares, groups.values(), strict=False)]
    counts.append((1 - shares[len(groups)]) * len(maze.lava))
    return [
        REACHED,
        *(f"{COUNTS[t]}{min(max(round(n), 0), MOST_ITEMS)}" for t, n in zip((*groups, LAVA), counts, strict=True)),
    ]


def encode_chain(paths: Sequence[Sequence[int]], size: int = SIZE) -> list[str]:
    """The tokens of a chain of routes on a board of `size`, each given as its cells, the start first; STOP at the
    end."""
    names, words = grid_of(size).names, []
    for path in paths:
        words.append(">" + names[path[0]])
        words.extend(names[cell] for cell in path[1:])
    return [*words, STOP]


@dataclass(frozen=True)
class Edit:
    """A change of a route: its cells up to place `start`, `middle`, and its cells from place `end` on.

    middle: new cells, with the one at `start` first and the one at `end` last
    end: the first visit of its cell; None if `middle` continues to E
    """

    start: int
    middle: Sequence[int]
    end: int | None

    def applied(self, parent: Sequence[int]) -> list[int]:
        """The cells of the new route."""
        rest = [] if self.end is None else parent[self.end + 1 :]
        return [*parent[: self.start], *self.middle, *rest]


def encode_edit(parent: Sequence[int], edit: Edit, size: int = SIZE) -> list[str]:
    """The tokens of a route that keeps parts of `parent`, given as its cells on a board of `size`."""
    names = grid_of(size).names
    words = [">" + names[parent[0]]]
    if edit.start:
        words += [f"{COPY}{edit.start}", names[parent[edit.start]]]
    words += [names[cell] for cell in edit.middle[1:]]
    if edit.end is not None:
        words.append(REST)
    return words
