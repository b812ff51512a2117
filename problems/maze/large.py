"""The generator of the large mazes: 13x13, four zones of which a walk can visit two or three, and a tight budget.

Prim's growth with extra openings, as in the paper's boards (problems.maze.generator); S and E on opposite corners.
Four zones of ITEMS gold, diamond, jade and pearl tiles are anywhere, their centres at least APART from each other and
from S and E; LAVA_TILES of lava are random, some in a zone. The rules score seven components (ZONES in
problems.maze.rules): completion, the share collected of each treasure, safety, and thrift, the share of the spare
steps that is left.

The budget is the shortest walk through the centres of three zones, the cheapest three, plus SLACK steps. A board is
kept if a walk through all four centres is at least LEAST_OVER over it and at least LEAST_SPARE steps are spare, so that
there is a trade-off: every treasure costs steps, some with lava, and some with another zone. The best walk takes two or
three zones, mostly without some item of them, and must not waste a step, which random way-points hardly ever do. No
policy was used in the design.
"""

from __future__ import annotations

import random
from itertools import combinations, permutations

from problems.maze.board import Maze
from problems.maze.generator import apart, grow, open_more
from problems.maze.rules import EMPTY, END, LAVA, START, WALL, ZONES

SIZE = 13
EXTRA_OPENINGS = (36, 50)
ITEMS = 3
LAVA_TILES = 4
ZONE_RADIUS = 2
APART = 5
IN_REACH = 3
"""Zones whose centres fit the budget."""
SLACK = 2
LEAST_OVER = 6
LEAST_SPARE = 8
"""Steps between the shortest way to E and the budget."""


def generate(rng: random.Random, size: int = SIZE) -> Maze:
    """The first maze that `rng` draws and that is accepted (about every other draw)."""
    while True:
        maze = attempt(rng, size)
        if maze is not None:
            return maze


def attempt(rng: random.Random, size: int = SIZE) -> Maze | None:
    """One draw; None if a condition of acceptance fails."""
    is_open = grow(rng, size)
    open_more(rng, size, is_open, rng.randint(*EXTRA_OPENINGS))
    last = size - 1
    top_left, top_right, bottom_left, bottom_right = corners = (0, last, size * last, size * size - 1)
    start, end = rng.choice([(top_left, bottom_right), (top_right, bottom_left)])
    for cell in corners:
        is_open[cell] = True
    tiles = [EMPTY if o else WALL for o in is_open]
    tiles[start], tiles[end] = START, END
    board = Maze("".join(tiles), 0, size)
    floor = [cell for cell, tile in enumerate(tiles) if tile == EMPTY and board.to_end[cell] >= 0]
    centres = _centres(
        rng, [cell for cell in floor if min(apart(cell, start, size), apart(cell, end, size)) >= APART], size
    )
    if len(centres) < len(ZONES.treasures) or board.shortest < 0:
        return None
    tours = _tours(board, centres)
    if tours is None:
        return None
    budget = tours[IN_REACH - 1] + SLACK
    if tours[-1] < budget + LEAST_OVER or budget - board.shortest < LEAST_SPARE:
        return None
    for tile, centre in zip(ZONES.treasures, centres, strict=True):
        zone = [cell for cell in floor if tiles[cell] == EMPTY and apart(cell, centre, size) <= ZONE_RADIUS]
        if len(zone) < ITEMS:
            return None
        for cell in rng.sample(zone, ITEMS):
            tiles[cell] = tile
    plain = [c for c in floor if tiles[c] == EMPTY and min(apart(c, start, size), apart(c, end, size)) > 1]
    for cell in rng.sample(plain, LAVA_TILES):
        tiles[cell] = LAVA
    return Maze("".join(tiles), budget, size, ZONES)


def _centres(rng: random.Random, candidates: list[int], size: int) -> list[int]:
    """Four random cells of `candidates` at least APART from each other, fewer if the draw finds no more."""
    rng.shuffle(candidates)
    centres: list[int] = []
    for cell in candidates:
        if len(centres) < len(ZONES.treasures) and all(apart(cell, other, size) >= APART for other in centres):
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
