"""The board of a maze, the moves of a walk on it and its reward."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from operator import add

from problems.weights import weighted_mean

EMPTY, WALL, START, END, GOLD, DIAMOND, LAVA, BONUS, JADE, PEARL = ".#SEGDLBJP"
TILES = EMPTY + WALL + START + END + GOLD + DIAMOND + LAVA + BONUS + JADE + PEARL
NAMES: Mapping[str, str] = {GOLD: "gold", DIAMOND: "diamond", JADE: "jade", PEARL: "pearl"}
"""The tiles to collect; each kind is a component of the reward."""
PLURALS: Mapping[str, str] = {**NAMES, DIAMOND: "diamonds", PEARL: "pearls"}


@dataclass(frozen=True)
class Rules:
    """Which components the reward vector has.

    treasures: the kinds of tiles that are collected, a component each
    thrift: whether steps saved are one more
    """

    treasures: tuple[str, ...]
    thrift: bool = False

    @property
    def objectives(self) -> tuple[str, ...]:
        kinds = [NAMES[tile] for tile in self.treasures]
        return ("completion", *kinds, "safety", *(["thrift"] if self.thrift else []))


PAPER = Rules((GOLD, DIAMOND))
"""The VPO paper's four components."""
ZONES = Rules((GOLD, DIAMOND, JADE, PEARL), thrift=True)
"""The seven of the large mazes."""

SIZE = 9
"""The size of the paper's boards."""
MOVES = "UDLR"
_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # in the order of MOVES


@dataclass(frozen=True)
class Maze:
    """A board and its step budget. Cells are numbered row by row from 0.

    tiles: size * size characters of TILES, one S and one E
    budget: steps that a walk may take, bumps into walls included
    rules: the scoring rules of a walk
    """

    tiles: str
    budget: int
    size: int = SIZE
    rules: Rules = PAPER

    def __post_init__(self) -> None:
        if len(self.tiles) != self.size**2 or set(self.tiles) - set(TILES):
            raise ValueError(f"a maze of size {self.size} has {self.size**2} tiles of {TILES!r}, not {self.tiles!r}")
        if self.tiles.count(START) != 1 or self.tiles.count(END) != 1:
            raise ValueError("a maze has exactly one S and one E")

    @classmethod
    def from_rows(cls, rows: Iterable[str], budget: int, rules: Rules = PAPER) -> Maze:
        """A square board written as rows of tiles; spaces are ignored."""
        lines = [row.replace(" ", "") for row in rows]
        return cls("".join(lines), budget, len(lines), rules)

    def rows(self) -> list[str]:
        return [self.tiles[i : i + self.size] for i in range(0, len(self.tiles), self.size)]

    @cached_property
    def start(self) -> int:
        return self.tiles.index(START)

    @cached_property
    def end(self) -> int:
        return self.tiles.index(END)

    @cached_property
    def treasures(self) -> tuple[tuple[int, ...], ...]:
        """Per kind that the rules count, its cells."""
        return tuple(self.cells(tile) for tile in self.rules.treasures)

    @cached_property
    def lava(self) -> tuple[int, ...]:
        return self.cells(LAVA)

    def cells(self, tile: str) -> tuple[int, ...]:
        return tuple(i for i, t in enumerate(self.tiles) if t == tile)

    @cached_property
    def after(self) -> tuple[dict[str, int], ...]:
        """Per cell, the target of each move: the cell itself if a wall or the border blocks."""
        open_cells = [t != WALL for t in self.tiles]
        table = []
        for cell, around in enumerate(beside(self.size)):
            targets = dict.fromkeys(MOVES, cell)
            for move, target in around:
                if open_cells[target]:
                    targets[move] = target
            table.append(targets)
        return tuple(table)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Per cell, the open cells one move away, in the order of MOVES."""
        is_open = [tile != WALL for tile in self.tiles]
        return tuple(tuple(t for _, t in around if is_open[t]) for around in beside(self.size))

    @cached_property
    def to_end(self) -> list[int]:
        """Steps from every cell to E."""
        return self.distances(self.end)

    @property
    def shortest(self) -> int:
        """Steps of the shortest way from S to E."""
        return self.to_end[self.start]

    def distances(self, target: int, blocked: frozenset[int] = frozenset()) -> list[int]:
        """Steps from every cell to `target` past no `blocked` cell; -1 if there is no way."""
        steps = [-1] * len(self.tiles)
        steps[target] = 0
        queue = deque((target,))
        while queue:
            cell = queue.popleft()
            for other in self.neighbours[cell]:
                if steps[other] < 0 and other not in blocked:
                    steps[other] = steps[cell] + 1
                    queue.append(other)
        return steps


@cache
def beside(size: int) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Per cell of an empty board, the cells next to it, each with the move that goes there, in the order of MOVES."""
    return tuple(
        tuple(
            (move, (row + dr) * size + column + dc)
            for move, (dr, dc) in zip(MOVES, _STEPS, strict=True)
            if 0 <= row + dr < size and 0 <= column + dc < size
        )
        for row in range(size)
        for column in range(size)
    )


@dataclass(frozen=True)
class Walk:
    """The result of a move list.

    cells: the cell after each step taken, the start first; a bump repeats its cell
    bumps: the steps, from 1, that a wall or the border blocked
    collected: distinct tiles stepped on of each kind of the rules' treasures, in their order; lava: the same of lava
    rewards: the components of the rules' objectives, all 0 unless E was reached
    """

    cells: tuple[int, ...]
    bumps: tuple[int, ...]
    reached: bool
    collected: tuple[int, ...]
    lava: int
    rewards: tuple[float, ...]

    @property
    def steps(self) -> int:
        return len(self.cells) - 1


def simulate(maze: Maze, moves: Sequence[str]) -> Walk:
    """Walk `moves` (letters of MOVES) from S until E, the end of the moves, or the end of the budget."""
    after, end, cell = maze.after, maze.end, maze.start
    cells, bumps = [cell], []
    for step, move in enumerate(moves[: maze.budget], 1):
        target = after[cell][move]
        if target == cell:
            bumps.append(step)
        cells.append(target)
        cell = target
        if cell == end:
            break
    seen = set(cells)
    collected = tuple([len(seen.intersection(group)) for group in maze.treasures])
    lava = len(seen.intersection(maze.lava))
    reached = cell == end
    rewards = rewards_of(maze, collected, lava, len(cells) - 1) if reached else (0.0,) * len(maze.rules.objectives)
    return Walk(tuple(cells), tuple(bumps), reached, collected, lava, rewards)


def rewards_of(maze: Maze, collected: Sequence[int], lava: int, steps: int) -> tuple[float, ...]:
    """The reward vector of a walk that reached E in `steps` with these numbers of distinct tiles stepped on.

    A kind of tile that the board lacks counts as not collected, lava as avoided. Thrift is 1 for the shortest way to E
    and 0 for one that takes the whole budget.
    """
    shares = [count / max(1, len(cells)) for count, cells in zip(collected, maze.treasures, strict=True)]
    safety = 1.0 - lava / max(1, len(maze.lava))
    if not maze.rules.thrift:
        return (1.0, *shares, safety)
    spare = max(1, maze.budget - maze.shortest)
    return (1.0, *shares, safety, 1.0 - (steps - maze.shortest) / spare)


def fitness_of(rewards: Sequence[float], weights: Sequence[float] = ()) -> float:
    """The deployment scalar: the mean of the components, added in their order: since Python 3.12 the last bit of
    sum() differs, and the stored optima are exact to it. weights: (d,) with sum 1, for their weighted mean"""
    return weighted_mean(rewards, weights) if weights else reduce(add, rewards) / len(rewards)


MOST_CHARACTERS = 20_000
"""Longer answers are refused unread; a list of 2,000 spelled-out moves is shorter."""

_NAMES = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R"}
_ARROWS = str.maketrans(
    {
        arrow: f" {move} "
        for arrows, move in (("↑⬆⇧", "U"), ("↓⬇⇩", "D"), ("←⬅⇦", "L"), ("→➡⇨", "R"))
        for arrow in arrows
    }
    | {"\ufe0f": " "}  # the mark that turns an arrow into an emoji
)
_PLAIN = re.compile(f"[{MOVES}]+")
_WORD = re.compile(r"[^\s,;|\[\](){}'\"`<>.\-]+")
_COUNTER = re.compile(r"(?<!\d)\d++[.):]")  # a long number is gone through once, not again from each of its digits


class UnreadableRoute(ValueError):
    """The text is not a move list; the message names the wrong word."""


def parse_moves(text: str) -> str:
    """The moves in `text` as letters of MOVES.

    Words (up, Down), letters in any case, runs of letters and arrows may be mixed; white space, commas, brackets,
    quotes, dashes and counters ("1.") separate. Anything else raises UnreadableRoute, and so does a text without a
    move: guessing moves out of prose would score a route that no one wrote.
    """
    if _PLAIN.fullmatch(text):
        return text
    if len(text) > MOST_CHARACTERS:
        raise UnreadableRoute(f"the route is {len(text)} characters long; at most {MOST_CHARACTERS} are read")
    moves = []
    for word in _WORD.findall(_COUNTER.sub(" ", text.translate(_ARROWS)).upper()):
        letters = _NAMES.get(word, word)
        if not _PLAIN.fullmatch(letters):
            raise UnreadableRoute(f"{word[:30]!r} is not a move; write moves as {', '.join(MOVES)}")
        moves.append(letters)
    if not moves:
        raise UnreadableRoute(f"the route holds no moves; write moves as {', '.join(MOVES)}")
    return "".join(moves)
