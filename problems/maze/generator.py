"""The generators of the mazes: those of the VPO paper (arXiv 2605.22817), and the large ones.

Which 9x9 this is. "Prim with 18-28 extra openings" and "walls block and cost a step" fit only one reading: a board of
9x9 *tiles*, some of them wall. Rooms on odd tiles with a border have 15 passages and 18 inner wall tiles, 9 of them
pillars, too few to open 28; 9x9 rooms with thin walls could hold them, but leave no tile to be a wall or to bump into.
So Prim grows tile by tile: a wall tile with exactly one open neighbour is opened until none is left (about 50 of 81
open). An *extra opening* opens a wall tile with two or more open neighbours, determined before the first is opened; if
fewer tiles qualify than were drawn, all of them are opened. "Radius 2" and "inside" are read as Manhattan distance 2
from the corner, and the tiles at least 2 from the border.

The seeds: a set of seed s tries random.Random(s), random.Random(s + 1), ... once each and keeps the accepted boards.
The draws are made in the order of the authors' generator, so the same seeds give the same boards as theirs.

"Both never fit" = the walks S -> corner -> other corner -> E are over the budget in both orders (the authors test the
one that has gold first; that differs in one board of some 3,000, and in none of the sets). "A safe path fits" = a path
without lava.

Departure: the reward is the paper's linear one (the authors' released script squares the three fractions and lets the
bonus tile multiply them; the paper's text, followed here, lets the reward ignore that tile).

The large mazes are ours: 13x13, four zones of which a walk can visit two or three, and a tight budget. S and E are on
opposite corners. Four zones of ZONE_ITEMS gold, diamond, jade and pearl tiles are anywhere, their centres at least
APART from each other and from S and E; LAVA_TILES of lava are random, some in a zone. The rules score seven components
(ZONES in problems.maze.board): completion, the share collected of each treasure, safety, and thrift, the share of the
spare steps that is left. The budget is the shortest walk through the centres of three zones, the cheapest three, plus
LARGE_SLACK steps. A board is kept if a walk through all four centres is at least LEAST_OVER over it and at least
LEAST_SPARE steps are spare, so that there is a trade-off: every treasure costs steps, some with lava, and some with
another zone. The best walk takes two or three zones, mostly without some item of them, and must not waste a step, which
random way-points hardly ever do. No policy was used in the design.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations, permutations

from problems.maze.board import BONUS, DIAMOND, EMPTY, END, GOLD, LAVA, SIZE, START, WALL, ZONES, Maze, beside

SLACK = 7
"""Steps that the budget leaves beyond the longer of the two one-corner detours."""
EXTRA_OPENINGS = (18, 28)
ITEMS = (3, 5)
"""Least and most gold, diamond and lava tiles, each drawn separately."""
ZONE_RADIUS = 2
LARGE_SIZE = 13
LARGE_OPENINGS = (36, 50)
ZONE_ITEMS = 3
"""Tiles of each treasure of a large maze."""
LAVA_TILES = 4
APART = 5
IN_REACH = 3
"""Zones of a large maze whose centres fit the budget."""
LARGE_SLACK = 2
LEAST_OVER = 6
LEAST_SPARE = 8
"""Steps between the shortest way to E and the budget of a large maze."""


def generate_maze(
    rng: random.Random, size: int = SIZE, draw: Callable[[random.Random, int], Maze | None] | None = None
) -> Maze:
    """The first maze that `rng` draws and that is accepted: nine draws in ten at 9x9, every other of the large ones.

    draw: `attempt_maze` (the default), or `attempt_large` with LARGE_SIZE
    """
    while True:
        if (maze := (draw or attempt_maze)(rng, size)) is not None:
            return maze


def _draw_passages(
    rng: random.Random, size: int, openings: tuple[int, int]
) -> tuple[list[bool], tuple[int, int, int, int], int, int]:
    """(which cells are open, the corners, start, end). Start and end are opposite corners; openings: fewest and most
    walls that are opened in addition to the tree."""
    is_open = grow(rng, size)
    open_more(rng, size, is_open, rng.randint(*openings))
    last = size - 1
    top_left, top_right, bottom_left, bottom_right = corners = (0, last, size * last, size * size - 1)
    start, end = rng.choice([(top_left, bottom_right), (top_right, bottom_left)])
    return is_open, corners, start, end


def attempt_maze(rng: random.Random, size: int = SIZE) -> Maze | None:
    """One draw of the paper's generator; None if a condition of acceptance fails."""
    is_open, corners, start, end = _draw_passages(rng, size, EXTRA_OPENINGS)
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
        [c for c in range(size * size) if tiles[c] == EMPTY and distance(c, corner, size) <= ZONE_RADIUS]
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


def distance(a: int, b: int, size: int) -> int:
    """Manhattan distance of two cells."""
    return abs(a // size - b // size) + abs(a % size - b % size)


def attempt_large(rng: random.Random, size: int = LARGE_SIZE) -> Maze | None:
    """One draw of a large maze; None if a condition of acceptance fails."""
    is_open, corners, start, end = _draw_passages(rng, size, LARGE_OPENINGS)
    for cell in corners:
        is_open[cell] = True
    tiles = [EMPTY if o else WALL for o in is_open]
    tiles[start], tiles[end] = START, END
    board = Maze("".join(tiles), 0, size)
    floor = [cell for cell, tile in enumerate(tiles) if tile == EMPTY and board.to_end[cell] >= 0]
    centres = _centres(
        rng, [cell for cell in floor if min(distance(cell, start, size), distance(cell, end, size)) >= APART], size
    )
    if len(centres) < len(ZONES.treasures) or board.shortest < 0:
        return None
    tours = _tours(board, centres)
    if tours is None:
        return None
    budget = tours[IN_REACH - 1] + LARGE_SLACK
    if tours[-1] < budget + LEAST_OVER or budget - board.shortest < LEAST_SPARE:
        return None
    for tile, centre in zip(ZONES.treasures, centres, strict=True):
        zone = [cell for cell in floor if tiles[cell] == EMPTY and distance(cell, centre, size) <= ZONE_RADIUS]
        if len(zone) < ZONE_ITEMS:
            return None
        for cell in rng.sample(zone, ZONE_ITEMS):
            tiles[cell] = tile
    plain = [c for c in floor if tiles[c] == EMPTY and min(distance(c, start, size), distance(c, end, size)) > 1]
    for cell in rng.sample(plain, LAVA_TILES):
        tiles[cell] = LAVA
    return Maze("".join(tiles), budget, size, ZONES)


def _centres(rng: random.Random, candidates: list[int], size: int) -> list[int]:
    """Four random cells of `candidates` at least APART from each other, fewer if the draw finds no more."""
    rng.shuffle(candidates)
    centres: list[int] = []
    for cell in candidates:
        if len(centres) < len(ZONES.treasures) and all(distance(cell, other, size) >= APART for other in centres):
            centres.append(cell)
    return centres


def _tours(board: Maze, centres: list[int]) -> list[int] | None:
    """Per number of centres, from 1, the steps of the shortest walk from S to E through that many of them; None if
    some cannot be reached without passing E."""
    end = frozenset((board.end,))
    steps = {centre: board.distances(centre, end) for centre in centres}
    if any(away[other] < 0 for away in steps.values() for other in (board.start, *centres)):
        return None

    def walked(order: tuple[int, ...]) -> int:
        between = sum(steps[a][b] for a, b in zip(order, order[1:], strict=False))
        return steps[order[0]][board.start] + between + board.to_end[order[-1]]

    return [
        min(walked(order) for chosen in combinations(centres, count) for order in permutations(chosen))
        for count in range(1, len(centres) + 1)
    ]
