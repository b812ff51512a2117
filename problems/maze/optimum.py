"""Every reachable outcome of a maze, by dynamic programming, exactly and in a fraction of a second.

A state is (cell, which items were stepped on); with up to 15 items on 81 cells that is 2.6 million states a step, with
16 items on 169 cells 11 million. All item sets of a cell are held as the bits of one Python integer: bit s is set if
the set s is reachable there by now. Moving is then an OR of whole integers, and stepping on item i a shift of the half
without bit i by 2**i onto the half with it, so that a step of the walk costs about a thousand operations on integers of
4 to 8 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from problems.maze.board import Maze, fitness_of, rewards_of

Counts = tuple[int, ...]
"""Distinct tiles stepped on: of each kind of treasure, in the order of the maze's rules, and of lava."""


def fewest_steps(maze: Maze) -> dict[Counts, int]:
    """All that a walk within the budget can have collected when it reaches E, with the steps that it takes at least.
    Empty if none reaches E."""
    groups = (*maze.treasures, maze.lava)
    items = tuple(cell for group in groups for cell in group)
    fewest: dict[Counts, int] = {}
    known = 0
    for step, layer in enumerate(_layers(maze, items)):
        for counts in _counted(layer[maze.end] & ~known, [len(group) for group in groups]):
            fewest.setdefault(counts, step)
        known = layer[maze.end]
    return fewest


def optimum(maze: Maze) -> float:
    """The largest deployment scalar that any walk earns; 0 if E is out of reach."""
    return max((fitness_of(_vector(maze, *outcome)) for outcome in fewest_steps(maze).items()), default=0.0)


def optimum_under(maze: Maze, weights: Sequence[float]) -> float:
    """The largest weighted sum of rewards that any walk earns; 0 if E is out of reach. weights: of the rules'
    objectives, in their order. The first call for a maze takes as long as `fewest_steps`, later ones microseconds."""
    return float((_possible_rewards(maze) @ np.asarray(weights, dtype=np.float64)).max(initial=0.0))


@lru_cache(maxsize=1024)
def _possible_rewards(maze: Maze) -> npt.NDArray[np.float64]:
    """(n, d): the reward vectors that walks can earn, of equal collections the one of the fewest steps."""
    vectors = [_vector(maze, *outcome) for outcome in fewest_steps(maze).items()]
    return np.array(vectors).reshape(-1, len(maze.rules.objectives))


def best_route(maze: Maze) -> str:
    """A shortest move list that earns the optimum; "" if E is out of reach."""
    groups = (*maze.treasures, maze.lava)
    items = tuple(cell for group in groups for cell in group)
    bit = {cell: 1 << i for i, cell in enumerate(items)}
    possible = fewest_steps(maze)
    if not possible:
        return ""
    best = max(sorted(possible), key=lambda counts: fitness_of(_vector(maze, counts, possible[counts])))
    choices = product(*(combinations(group, count) for group, count in zip(groups, best, strict=True)))
    wanted = [sum(bit[cell] for part in choice for cell in part) for choice in choices]
    layers = []
    for layer in _layers(maze, items):
        layers.append(layer)
        if len(layers) > possible[best]:
            break
    step = possible[best]
    held = next(held for held in wanted if layers[step][maze.end] >> held & 1)
    moves, cell = "", maze.end
    while step:
        step -= 1
        options = [held] if cell not in bit else [held, held ^ bit[cell]]
        move, cell, held = next(
            (move, source, before)
            for source in maze.neighbours[cell]
            for move, target in maze.after[source].items()
            for before in options
            if target == cell and source != maze.end and layers[step][source] >> before & 1
        )
        moves = move + moves
    return moves


def _vector(maze: Maze, counts: Counts, steps: int) -> tuple[float, ...]:
    return rewards_of(maze, counts[:-1], counts[-1], steps)


def _counted(sets: int, sizes: Sequence[int]) -> list[Counts]:
    """How many items of each group the item sets hold that are the bits of `sets`; each answer once."""
    if not sets:
        return []
    held = np.flatnonzero(
        np.unpackbits(np.frombuffer(sets.to_bytes(2 ** sum(sizes) // 8 + 1, "little"), np.uint8), bitorder="little")
    )
    counts, low = [], 0
    for size in sizes:
        counts.append(np.bitwise_count(held >> low & (1 << size) - 1))
        low += size
    return [tuple(map(int, row)) for row in np.unique(np.stack(counts, 1), axis=0)]


def _layers(maze: Maze, items: Sequence[int]) -> Iterator[list[int]]:
    """Per number of steps 0 to budget, per cell, the item sets that are possible there after at most that many
    steps."""
    size = 2 ** len(items)
    everything = (1 << size) - 1
    without = {}  # per item's cell: (shift, the sets that lack the item)
    for i, cell in enumerate(items):
        # 2**i sets without item i, 2**i with it, and so on
        without[cell] = (1 << i, everything // ((1 << (1 << i)) + 1))
    reach = [0] * len(maze.tiles)
    reach[maze.start] = 1
    yield reach
    for _ in range(maze.budget):
        following = list(reach)
        for cell, around in enumerate(maze.neighbours):
            sets = 0
            for other in around:
                if other != maze.end:  # the walk ends at E
                    sets |= reach[other]
            if cell in without:
                shift, lacking = without[cell]
                sets = sets & ~lacking | (sets & lacking) << shift
            following[cell] |= sets
        reach = following
        yield reach
