"""The maze of the VPO paper (arXiv 2605.22817): its board, its walk, and the generator that draws it.

Which 9x9 this is. "Prim with 18-28 extra openings" and "walls block and cost a step" fit one reading alone: a board of
9x9 *tiles*, some of them wall. Rooms on odd tiles with a border have 15 passages and 18 inner wall tiles, 9 of them
pillars, too few to open 28; 9x9 rooms with thin walls could hold them, but leave no tile to be a wall or to bump into.
So Prim grows tile by tile: a wall tile with exactly one open neighbour is opened until none is left (about 50 of 81
open). An *extra opening* opens a wall tile with two or more open neighbours, found before the first is opened; where
fewer tiles qualify than were drawn, all of them are opened. "Radius 2" and "inside" are read as Manhattan distance 2
from the corner, and the tiles at least 2 from the border.

The seeds: a set of seed s tries random.Random(s), random.Random(s + 1), ... once each and keeps what is accepted. The
draws are made in the order of the authors' generator, so the same seeds give the same boards as theirs.

"Both never fit" = the walks S -> corner -> other corner -> E are over the budget in both orders (the authors test the
one that has gold first; that differs in one board of some 3,000, and in none of the sets). "A safe path fits" = a path
without lava.

Departure: the reward is the paper's linear one (the authors' released script squares the three fractions and lets the
bonus tile multiply them; the paper's text, followed here, lets the reward ignore that tile).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

EMPTY, WALL, START, END, GOLD, DIAMOND, LAVA, BONUS = ".#SEGDLB"
TILES = EMPTY + WALL + START + END + GOLD + DIAMOND + LAVA + BONUS
SIZE = 9
SLACK = 7
"""Steps that the budget leaves beyond the longer of the two one-corner detours."""
EXTRA_OPENINGS = (18, 28)
ITEMS = (3, 5)
"""Least and most gold, diamond and lava tiles, each drawn on its own."""
ZONE_RADIUS = 2

MOVES = "UDLR"
_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # in the order of MOVES
OBJECTIVES = ("completion", "gold", "diamond", "safety")


@dataclass(frozen=True)
class Maze:
    """A board and its step budget. Cells are numbered row by row from 0.

    tiles: size * size characters of TILES, one S and one E
    budget: steps that a walk may take, bumps into walls included
    """

    tiles: str
    budget: int
    size: int = SIZE

    def __post_init__(self) -> None:
        if len(self.tiles) != self.size**2 or set(self.tiles) - set(TILES):
            raise ValueError(f"a maze of size {self.size} has {self.size**2} tiles of {TILES!r}, not {self.tiles!r}")
        if self.tiles.count(START) != 1 or self.tiles.count(END) != 1:
            raise ValueError("a maze has exactly one S and one E")

    @classmethod
    def from_rows(cls, rows: Iterable[str], budget: int) -> Maze:
        """A square board written as rows of tiles; spaces are ignored."""
        lines = [row.replace(" ", "") for row in rows]
        return cls("".join(lines), budget, len(lines))

    def rows(self) -> list[str]:
        return [self.tiles[i : i + self.size] for i in range(0, len(self.tiles), self.size)]

    @cached_property
    def start(self) -> int:
        return self.tiles.index(START)

    @cached_property
    def end(self) -> int:
        return self.tiles.index(END)

    @cached_property
    def gold(self) -> tuple[int, ...]:
        return self.cells(GOLD)

    @cached_property
    def diamond(self) -> tuple[int, ...]:
        return self.cells(DIAMOND)

    @cached_property
    def lava(self) -> tuple[int, ...]:
        return self.cells(LAVA)

    def cells(self, tile: str) -> tuple[int, ...]:
        return tuple(i for i, t in enumerate(self.tiles) if t == tile)

    @cached_property
    def after(self) -> tuple[dict[str, int], ...]:
        """Per cell, where each move leads: the cell itself where a wall or the border blocks."""
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

    def distances(self, target: int, blocked: frozenset[int] = frozenset()) -> list[int]:
        """Steps from every cell to `target` past no `blocked` cell; -1 where there is no way."""
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
    """What became of a move list.

    cells: the cell after each step taken, the start first; a bump repeats its cell
    bumps: the steps, from 1, that a wall or the border blocked
    gold, diamond, lava: distinct tiles stepped on
    rewards: (completion, gold fraction, diamond fraction, 1 - lava fraction), all 0 unless E was reached
    """

    cells: tuple[int, ...]
    bumps: tuple[int, ...]
    reached: bool
    gold: int
    diamond: int
    lava: int
    rewards: tuple[float, float, float, float]

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
    gold, diamond, lava = (len(seen.intersection(group)) for group in (maze.gold, maze.diamond, maze.lava))
    reached = cell == end
    rewards = rewards_of(maze, gold, diamond, lava) if reached else (0.0, 0.0, 0.0, 0.0)
    return Walk(tuple(cells), tuple(bumps), reached, gold, diamond, lava, rewards)


def rewards_of(maze: Maze, gold: int, diamond: int, lava: int) -> tuple[float, float, float, float]:
    """The reward vector of a walk that reached E with so many distinct tiles stepped on. A kind of tile that the board
    lacks counts as not collected (gold, diamond) and as avoided (lava)."""
    return (
        1.0,
        gold / max(1, len(maze.gold)),
        diamond / max(1, len(maze.diamond)),
        1.0 - lava / max(1, len(maze.lava)),
    )


def fitness_of(rewards: Sequence[float]) -> float:
    """The deployment scalar: the mean of the components."""
    return sum(rewards) / len(rewards)


def generate(rng: random.Random, size: int = SIZE) -> Maze:
    """The first maze that `rng` draws and that is accepted (nine draws in ten at 9x9)."""
    while True:
        maze = attempt(rng, size)
        if maze is not None:
            return maze


def attempt(rng: random.Random, size: int = SIZE) -> Maze | None:
    """One draw of the paper's generator; None where a condition of acceptance fails."""
    is_open = _grow(rng, size)
    _open_more(rng, size, is_open, rng.randint(*EXTRA_OPENINGS))
    last = size - 1
    top_left, top_right, bottom_left, bottom_right = corners = (0, last, size * last, size * size - 1)
    start, end = rng.choice([(top_left, bottom_right), (top_right, bottom_left)])
    others = [corner for corner in corners if corner not in (start, end)]
    rng.shuffle(others)
    gold_corner, diamond_corner = others
    centre = size // 2 * (size + 1)
    for cell in (*corners, centre):
        is_open[cell] = True
    tiles = [EMPTY if o else WALL for o in is_open]
    tiles[start], tiles[end], tiles[centre] = START, END, BONUS
    board = Maze("".join(tiles), 0, size)

    to_gold, to_diamond = board.distances(gold_corner), board.distances(diamond_corner)
    if min(to_gold[start], to_gold[end], to_diamond[start], to_diamond[end], to_gold[centre]) < 0:
        return None
    budget = max(to_gold[start] + to_gold[end], to_diamond[start] + to_diamond[end]) + SLACK
    between = to_gold[diamond_corner]
    if between + min(to_gold[start] + to_diamond[end], to_diamond[start] + to_gold[end]) <= budget:
        return None
    zones = [
        [c for c in range(size * size) if tiles[c] == EMPTY and _apart(c, corner, size) <= ZONE_RADIUS]
        for corner in others
    ]
    if min(map(len, zones)) < ITEMS[0]:
        return None
    counts = [rng.randint(ITEMS[0], min(ITEMS[1], len(zone))) for zone in zones]
    for tile, zone, count in zip((GOLD, DIAMOND), zones, counts, strict=True):
        for cell in rng.sample(zone, count):
            tiles[cell] = tile
    inside = [r * size + c for r in range(2, size - 2) for c in range(2, size - 2) if tiles[r * size + c] == EMPTY]
    for cell in rng.sample(inside, min(rng.randint(*ITEMS), len(inside))):
        tiles[cell] = LAVA
    maze = Maze("".join(tiles), budget, size)
    safe = maze.distances(end, frozenset(maze.lava))[start]
    return maze if 0 <= safe <= budget else None


def _grow(rng: random.Random, size: int) -> list[bool]:
    """Prim's growth from a random tile: which tiles are open."""
    is_open, table = [False] * size**2, beside(size)
    cell = rng.randrange(size) * size + rng.randrange(size)
    is_open[cell] = True
    frontier = [other for _, other in table[cell]]
    while frontier:
        cell = frontier.pop(rng.randrange(len(frontier)))
        around = [other for _, other in table[cell]]
        if is_open[cell] or sum(is_open[other] for other in around) != 1:
            continue
        is_open[cell] = True
        frontier.extend(other for other in around if not is_open[other])
    return is_open


def _open_more(rng: random.Random, size: int, is_open: list[bool], count: int) -> None:
    """Open `count` random wall tiles that have two or more open neighbours, or as many as there are."""
    candidates = [
        cell
        for cell, around in enumerate(beside(size))
        if not is_open[cell] and sum(is_open[other] for _, other in around) >= 2
    ]
    rng.shuffle(candidates)
    for cell in candidates[:count]:
        is_open[cell] = True


def _apart(a: int, b: int, size: int) -> int:
    """Manhattan distance of two cells."""
    return abs(a // size - b // size) + abs(a % size - b % size)
