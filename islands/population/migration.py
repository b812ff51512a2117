"""The choice of members that migrate along the ring, and of their targets. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from islands.population.island import Island


@dataclass(frozen=True)
class Move:
    """A copy of a candidate (by ordinal) from one island to another."""

    source: int
    target: int
    candidate: int


def neighbours(island: int, islands: int) -> tuple[int, ...]:
    """The islands next to one on the ring, each once and never itself."""
    return tuple(dict.fromkeys(t for t in ((island + 1) % islands, (island - 1) % islands) if t != island))


def plan(islands: Sequence[Island], rate: float, basis: int) -> list[Move]:
    """The moves of one migration, island by island, fittest first.

    The top `rate` of each island's own members, at least one and counted over at most `basis`, goes to both neighbours,
    as in OpenEvolve. A copy that came by migration does not migrate again, nor take a place of those that do. No
    candidate goes to an island that has it, and failed ones stay; the next in rank do not take their places, so fewer
    may travel. All islands choose before anything moves. O(islands x (copies + rate x basis)).
    """
    moves: list[Move] = []
    planned: set[tuple[int, int]] = set()  # a seed lives on every island, and two of them may send it to a third
    for source, island in enumerate(islands):
        own = len(island) - len(island.migrants)
        travelling = max(1, int(min(own, basis) * rate))
        for candidate in islice((one for one in island.falling() if one not in island.migrants), travelling):
            if not island.columns.valid[candidate]:
                continue
            for target in neighbours(source, len(islands)):
                if candidate not in islands[target] and (target, candidate) not in planned:
                    planned.add((target, candidate))
                    moves.append(Move(source, target, candidate))
    return moves
