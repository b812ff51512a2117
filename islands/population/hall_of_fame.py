"""OpenEvolve's `archive`: the members that exploitation draws from, across all islands."""

from __future__ import annotations

import numpy as np
from sortedcontainers import SortedList

from islands.population.columns import Columns
from islands.population.weighted_sampler import IndexedSet

Member = tuple[int, int]
"""(ordinal, island): a candidate on an island. A copy that migrated is another member."""


class HallOfFame:
    """At most `size` members. While there is room every newcomer enters, as in OpenEvolve; then a newcomer must be
    fitter than the least fit, which leaves. O(log size)."""

    def __init__(self, columns: Columns, size: int, islands: int) -> None:
        self._columns = columns
        self._size = size
        self._ranked: SortedList = SortedList()  # (valid, fitness, -ordinal, island), least fit first
        self._all: IndexedSet[Member] = IndexedSet()
        self._of_island: list[IndexedSet[int]] = [IndexedSet() for _ in range(islands)]

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, member: Member) -> bool:
        return member in self._all

    def offer(self, ordinal: int, island: int) -> None:
        if (ordinal, island) in self._all:
            return
        if len(self._all) >= self._size:
            valid, fitness, age, least_island = self._ranked[0]
            if self._columns.rank_key(ordinal)[:2] <= (valid, fitness):
                return
            self.discard(-age, least_island)
        self._all.add((ordinal, island))
        self._of_island[island].add(ordinal)
        self._ranked.add((*self._columns.rank_key(ordinal), island))

    def discard(self, ordinal: int, island: int) -> None:
        if (ordinal, island) in self._all:
            self._all.discard((ordinal, island))
            self._of_island[island].discard(ordinal)
            self._ranked.remove((*self._columns.rank_key(ordinal), island))

    def draw(self, island: int, rng: np.random.Generator) -> int | None:
        """A uniform member of that island, else of any; None where it is empty."""
        if len(self._of_island[island]):
            return self._of_island[island].draw(rng)
        return self._all.draw(rng)[0] if len(self._all) else None
