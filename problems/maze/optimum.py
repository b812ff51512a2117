"""What a maze allows: every reachable outcome, by dynamic programming, exactly and in milliseconds.

A state is (cell, which items were stepped on); with up to 15 items on 81 cells that is 2.6 million states a step. All
item sets of a cell are held as the bits of one Python integer: bit s is set where the set s can be had there by now.
Moving is then an OR of whole integers, and stepping on item i a shift of the half without bit i by 2**i onto the half
with it, so that a step of the walk costs about a thousand operations on 4 KiB integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np

from problems.maze.board import Maze, fitness_of, rewards_of

Counts = tuple[int, int, int]
"""Distinct gold, diamond and lava tiles stepped on."""


def outcomes(maze: Maze) -> frozenset[Counts]:
    """Every (gold, diamond, lava) with which some walk reaches E within the budget. Empty where none does."""
    items = (*maze.gold, *maze.diamond, *maze.lava)
    sets = _layers(maze, items)[-1][maze.end]
    held = np.flatnonzero(
        np.unpackbits(np.frombuffer(sets.to_bytes(2 ** len(items) // 8 + 1, "little"), np.uint8), bitorder="little")
    )
    counts, low = [], 0
    for group in (maze.gold, maze.diamond, maze.lava):
        ones = np.array([value.bit_count() for value in range(2 ** len(group))])
        counts.append(ones[(held >> low) & (2 ** len(group) - 1)])
        low += len(group)
    return frozenset((int(g), int(d), int(v)) for g, d, v in np.unique(np.stack(counts, 1), axis=0))


def optimum(maze: Maze, weights: Sequence[float] | None = None) -> float:
    """The largest deployment scalar that any walk earns, or the largest w . r for `weights` (d,); 0 where E is out of
    reach."""
    vectors = [rewards_of(maze, *counts) for counts in outcomes(maze)]
    if weights is None:
        return max(map(fitness_of, vectors), default=0.0)
    return max((float(np.dot(weights, vector)) for vector in vectors), default=0.0)


def pareto(maze: Maze) -> list[tuple[float, float, float, float]]:
    """The reward vectors that no walk's vector dominates, sorted."""
    vectors = sorted({rewards_of(maze, *counts) for counts in outcomes(maze)})
    return [
        v
        for v in vectors
        if not any(other != v and all(o >= x for o, x in zip(other, v, strict=True)) for other in vectors)
    ]


def best_route(maze: Maze) -> str:
    """A shortest move list that earns the optimum; "" where E is out of reach."""
    items = (*maze.gold, *maze.diamond, *maze.lava)
    bit = {cell: 1 << i for i, cell in enumerate(items)}
    layers = _layers(maze, items)
    possible = outcomes(maze)
    if not possible:
        return ""
    best = max(possible, key=lambda counts: fitness_of(rewards_of(maze, *counts)))
    groups = zip((maze.gold, maze.diamond, maze.lava), best, strict=True)
    choices = product(*(combinations(group, count) for group, count in groups))
    wanted = [sum(bit[cell] for part in choice for cell in part) for choice in choices]
    step, held = next(
        (step, held) for step, layer in enumerate(layers) for held in wanted if layer[maze.end] >> held & 1
    )
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


def _layers(maze: Maze, items: Sequence[int]) -> list[list[int]]:
    """Per number of steps 0 to budget, per cell, the item sets that can be held there after at most so many steps."""
    size = 2 ** len(items)
    everything = (1 << size) - 1
    without = {}  # per item's cell: (shift, the sets that lack the item)
    for i, cell in enumerate(items):
        # 2**i sets without item i, 2**i with it, and so on
        without[cell] = (1 << i, everything // ((1 << (1 << i)) + 1))
    reach = [0] * len(maze.tiles)
    reach[maze.start] = 1
    layers = [reach]
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
        layers.append(reach)
    return layers
