"""The mazes of the VPO paper (arXiv 2605.22817): the generator that draws them.

Which 9x9 this is. "Prim with 18-28 extra openings" and "walls block and cost a step" fit only one reading: a board of
9x9 *tiles*, some of them wall. Rooms on odd tiles with a border have 15 passages and 18 inner wall tiles, 9 of them
pillars, too few to open 28; 9x9 rooms with thin walls could hold them, but leave no tile to be a wall or to bump into.
So Prim grows tile by tile: a wall tile with exactly one open neighbour is opened until none is left (about 50 of 81
open). An *extra opening* opens a wall tile with two or more open neighbours, determined before the first is opened; if
fewer tiles qualify than were drawn, all of them are opened. "Radius 2" and "inside" are read as Manhattan distance 2
from the corner, and the tiles at least 2 from the border.

The seeds: a set of seed s tries random.Random(s), random.Random(s + 1), ... once each and keeps the accepted boards.
    The
draws are made in the order of the authors' generator, so the same seeds give the same boards as theirs.

"Both never fit" = the walks S -> corner -> other corner -> E are over the budget in both orders (the authors test the
one that has gold first; that differs in one board of some 3,000, and in none of the sets). "A safe path fits" = a path
without lava.

Departure: the reward is the paper's linear one (the authors' released script squares the three fractions and lets the
bonus tile multiply them; the paper's text, followed here, lets the reward ignore that tile).
"""

from __future__ import annotations

import random

from problems.maze.board import SIZE, Maze, beside
from problems.maze.rules import BONUS, DIAMOND, EMPTY, END, GOLD, LAVA, START, WALL

SLACK = 7
"""Steps that the budget leaves beyond the longer of the two one-corner detours."""
EXTRA_OPENINGS = (18, 28)
ITEMS = (3, 5)
"""Least and most gold, diamond and lava tiles, each drawn separately."""
ZONE_RADIUS = 2


def generate(rng: random.Random, size: int = SIZE) -> Maze:
    """The first maze that `rng` draws and that is accepted (nine draws in ten at 9x9)."""
    while True:
        maze = attempt(rng, size)
        if maze is not None:
            return maze


def attempt(rng: random.Random, size: int = SIZE) -> Maze | None:
    """One draw of the paper's generator; None if a condition of acceptance fails."""
    is_open = grow(rng, size)
    open_more(rng, size, is_open, rng.randint(*EXTRA_OPENINGS))
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
        [c for c in range(size * size) if tiles[c] == EMPTY and apart(c, corner, size) <= ZONE_RADIUS]
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


def grow(rng: random.Random, size: int) -> list[bool]:
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


def open_more(rng: random.Random, size: int, is_open: list[bool], count: int) -> None:
    """Open `count` random wall tiles that have two or more open neighbours, or as many as there are."""
    candidates = [
        cell
        for cell, around in enumerate(beside(size))
        if not is_open[cell] and sum(is_open[other] for _, other in around) >= 2
    ]
    rng.shuffle(candidates)
    for cell in candidates[:count]:
        is_open[cell] = True


def apart(a: int, b: int, size: int) -> int:
    """Manhattan distance of two cells."""
    return abs(a // size - b // size) + abs(a % size - b % size)
