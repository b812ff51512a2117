"""The answers of an island that no other answer it ever had dominates, and a few of them that serve all weightings."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from islands.population.columns import Columns
from problems.answer_sets import best_set

WEIGHTINGS = 64


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
    """(WEIGHTINGS, d), always the same."""
    return np.random.default_rng(0).dirichlet(np.ones(objectives), WEIGHTINGS)
