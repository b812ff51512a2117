"""One island: its members, their order by fitness, its archive, and its front."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from islands.population.archive import GridArchive
from islands.population.columns import Columns, IndexedSet
from problems.answer_sets import best_set

LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e12
"""A candidate of no fitness is still drawn now and then (OpenEvolve's floor); the cap keeps the sums finite."""


class Island:
    """Candidates by ordinal; the members are all valid or all failed.

    A visit is a stored group whose parent was a member of this island. Stored groups count and not selections, so that
    a resumed search has the counts of the one that was cut off.
    """

    def __init__(self, columns: Columns, archive: GridArchive) -> None:
        self.columns = columns
        self.archive = archive
        self.front = IslandFront(columns)
        self.members: IndexedSet[int] = IndexedSet()
        self.migrants: set[int] = set()
        self.generation = 0
        self._ranked: list[tuple[float, int]] = []  # (fitness, -ordinal), least fit first
        self._visits: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, ordinal: int) -> bool:
        return ordinal in self.members

    @property
    def holds_valid(self) -> bool:
        """Whether its members are valid candidates; False when it is empty."""
        return len(self.members) > 0 and bool(self.columns.valid[self.members.items[0]])

    def join(self, ordinal: int) -> None:
        self.members.add(ordinal)
        insort(self._ranked, (self.columns.fitness[ordinal], -ordinal))
        if self.columns.valid[ordinal]:
            self.front.offer(ordinal)

    def leave(self, ordinal: int) -> None:
        """Remove a member from everything the island keeps, its cell included."""
        self.members.discard(ordinal)
        del self._ranked[bisect_left(self._ranked, (self.columns.fitness[ordinal], -ordinal))]
        self.archive.discard(ordinal)
        self.migrants.discard(ordinal)

    def top(self, n: int) -> list[int]:
        """The n fittest, fittest first; the older of two equals comes first."""
        return [-age for _, age in self._ranked[: -n - 1 : -1]] if n > 0 else []

    def falling(self) -> Iterator[int]:
        """Every member, fittest first, lazily."""
        return (-age for _, age in reversed(self._ranked))

    def draw_by_fitness(self, rng: np.random.Generator) -> int:
        """A member in proportion to its fitness, clipped to [LEAST_WEIGHT, MOST_WEIGHT]. Raises IndexError when empty.
        O(members)."""
        fitness = np.asarray(self.columns.fitness)[self.members.items]
        sums = np.cumsum(np.clip(fitness, LEAST_WEIGHT, MOST_WEIGHT))
        place = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        return self.members.items[min(place, len(sums) - 1)]  # rounding may point one past the end

    def visits(self, ordinal: int) -> int:
        """The stored groups that had this candidate as their parent."""
        return self._visits.get(ordinal, 0)

    def visit(self, ordinal: int) -> None:
        """Count a group that had this candidate as its parent."""
        self._visits[ordinal] = self.visits(ordinal) + 1


_WEIGHTINGS = 64


class IslandFront:
    """Ordinals, the oldest first; of equal reward vectors the oldest alone. One leaves only for another that dominates
    it: neither the cap nor a fitter answer in its cell takes the best of one goal out of it."""

    def __init__(self, columns: Columns) -> None:
        self.members: list[int] = []
        self._columns = columns
        self._rewards = np.zeros((0, columns.objectives))
        self._pool: tuple[int, list[int]] = (0, [])  # most members, and they

    def offer(self, ordinal: int) -> None:
        """A valid candidate arrives. O(front x objectives)."""
        vector = np.array(self._columns.rewards(ordinal))
        if (self._rewards >= vector).all(axis=1).any():
            return
        kept = np.asarray(~(self._rewards <= vector).all(axis=1))
        self.members = [member for member, stays in zip(self.members, kept, strict=True) if stays] + [ordinal]
        self._rewards = np.vstack([self._rewards[kept], vector])
        self._pool = (0, [])

    def pool(self, most: int) -> tuple[list[int], npt.NDArray[np.float64]]:
        """At most that many members (n,) with their reward vectors (n, d): the set whose best member under a random
        weighting of the objectives, w ~ Dir(1), is worth most on average."""
        if self._pool[0] != most:
            count = len(self.members)
            values = self._rewards @ _weightings(self._columns.objectives).T
            self._pool = most, best_set(values, most)[0] if count > most else list(range(count))
        places = self._pool[1]
        return [self.members[place] for place in places], self._rewards[places]


@cache
def _weightings(objectives: int) -> npt.NDArray[np.float64]:
    """(_WEIGHTINGS, d), always the same."""
    return np.random.default_rng(0).dirichlet(np.ones(objectives), _WEIGHTINGS)
