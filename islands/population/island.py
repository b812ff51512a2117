"""The in-memory data of every candidate, a few dozen bytes of numbers, never its text; and one island: its members,
their order by fitness, its front, and its archive: which candidates are its elites, and the cell each of them holds. It
knows nothing of databases or other islands."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cache
from operator import ge
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from islands.population.features import Cell, FeatureSpace
from problems.answer_sets import best_set

_T = TypeVar("_T", bound=Hashable)


class Columns:
    """Candidates of one problem, addressed by ordinal (0, 1, 2... in the order in which they were stored).

    Ordinals, not database ids, are used in memory: ids may have gaps that depend on the database, and ties broken by
    them would too.
    """

    def __init__(self, objectives: int) -> None:
        self.objectives = objectives
        self.ids = array("q")
        self.fitness = array("d")
        self.generations = array("l")
        self.valid = bytearray()
        self.successful = array("l")  # ordinals, rising
        self._rewards = array("d")
        self._measures = array("d")
        self._known: dict[bytes, int] = {}
        self.dimensions: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def append(
        self,
        id: int,
        identity: bytes,
        fitness: float,
        rewards: Sequence[float],
        measures: Sequence[float],
        generation: int,
        valid: bool,
    ) -> int:
        """Store one and return its ordinal. Measures must be given once dimensions are settled, for valid ones; a
        failed one's are not kept.

        It is successful if it is valid and has any other score than the zero score of a failed answer: a route that
        reaches the exit, a program that passes a test, whatever runs where fitness may be negative."""
        ordinal = len(self.ids)
        if ordinal and id <= self.ids[-1]:
            raise ValueError(f"candidate {id} does not follow {self.ids[-1]}: ids must grow in the order of storing")
        self.ids.append(id)
        self.fitness.append(fitness)
        self.generations.append(generation)
        self.valid.append(valid)
        if valid and (fitness != 0 or any(rewards)):
            self.successful.append(ordinal)
        self._rewards.extend(rewards)
        if self.dimensions is None and measures:
            self.dimensions = len(measures)
            self._measures.extend([0.0] * self.dimensions * ordinal)
        if self.dimensions is not None:
            self._measures.extend(measures if measures else [0.0] * self.dimensions)
        self._known[identity] = ordinal
        return ordinal

    def known(self, identity: bytes) -> int | None:
        """The id of the candidate with that identity."""
        ordinal = self._known.get(identity)
        return None if ordinal is None else self.ids[ordinal]

    def ordinal(self, id: int) -> int:
        """The ordinal of a candidate by its database id, O(log n). Raises KeyError if it is not here."""
        place = bisect_left(self.ids, id)
        if place == len(self.ids) or self.ids[place] != id:
            raise KeyError(id)
        return place

    def rewards(self, ordinal: int) -> tuple[float, ...]:
        """(d,)"""
        d = self.objectives
        return tuple(self._rewards[ordinal * d : ordinal * d + d])

    def measures(self, ordinal: int) -> tuple[float, ...]:
        """(f,) raw feature values; zeros for a failed candidate."""
        f = self.dimensions or 0
        return tuple(self._measures[ordinal * f : ordinal * f + f])

    def rank_key(self, ordinal: int) -> tuple[bool, float, int]:
        """Rises with worth: valid before failed, then fitness, then age (the older of two equals wins)."""
        return (bool(self.valid[ordinal]), self.fitness[ordinal], -ordinal)


def index_below(n: int, rng: np.random.Generator) -> int:
    """A uniform integer in [0, n). One float draw costs a fifth of `rng.integers`; the bias is below n / 2^53."""
    return int(rng.random() * n)


class IndexedSet(dict[_T, int]):
    """A set with O(1) add, discard and uniform draw: each item with its place in `order`. That depends only on the
    order of the calls, so equal histories give equal draws."""

    __slots__ = ("order",)

    def __init__(self) -> None:
        self.order: list[_T] = []

    def draw(self, rng: np.random.Generator) -> _T:
        """A uniform member. Raises IndexError when empty."""
        return self.order[index_below(len(self), rng)]

    def add(self, item: _T) -> None:
        if item not in self:
            self[item] = len(self)
            self.order.append(item)

    def discard(self, item: _T) -> None:
        place = self.pop(item, None)
        if place is None:
            return
        last = self.order.pop()
        if place < len(self):  # the last one fills the gap
            self.order[place] = last
            self[last] = place


def cell_name(cell: Cell) -> str:
    """A cell as the database and the user see it."""
    return "-".join(map(str, cell))


class GridArchive:
    """MAP-Elites: the fittest candidate of each cell of feature space. Ordinals in cells, with their reward vectors in
    the rows of a matrix. Offers, put and take cost O(1); a strictly fitter candidate wins a cell."""

    def __init__(self, columns: Columns, space: FeatureSpace) -> None:
        self.columns = columns
        self.space = space
        self.cells: dict[Cell, int] = {}
        self.changed: set[Cell] = set()
        self._cell_of: dict[int, Cell] = {}
        self._rows: list[int] = []
        self._row_of: dict[int, int] = {}
        self._matrix = np.zeros((8, columns.objectives))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, ordinal: int) -> bool:
        return ordinal in self._cell_of

    def elites(self) -> tuple[Sequence[int], npt.NDArray[np.float64]]:
        """Ordinals (E,) and their reward vectors (E, d), row by row; views, not to be kept."""
        return self._rows, self._matrix[: len(self._rows)]

    def put(self, ordinal: int, cell: Cell) -> None:
        self.cells[cell] = ordinal
        self._cell_of[ordinal] = cell
        self.changed.add(cell)
        row = len(self._rows)
        if row == len(self._matrix):
            self._matrix = np.vstack([self._matrix, np.zeros_like(self._matrix)])
        self._matrix[row] = self.columns.rewards(ordinal)
        self._rows.append(ordinal)
        self._row_of[ordinal] = row

    def take(self, ordinal: int) -> None:
        cell = self._cell_of.pop(ordinal)
        del self.cells[cell]
        self.changed.add(cell)
        row, last = self._row_of.pop(ordinal), self._rows.pop()
        if row < len(self._rows):
            self._rows[row], self._row_of[last] = last, row
            self._matrix[row] = self._matrix[len(self._rows)]

    def discard(self, ordinal: int) -> None:
        """Take it out if it is an elite: its cell becomes empty."""
        if ordinal in self._cell_of:
            self.take(ordinal)

    def would_enter(self, ordinal: int) -> bool:
        """Whether `offer` would give it a cell; the ranges must hold its measures already."""
        occupant = self.cells.get(self.space.cell(self.columns.measures(ordinal)))
        return occupant is None or self.columns.fitness[ordinal] > self.columns.fitness[occupant]

    def offer(self, ordinal: int) -> tuple[bool, int | None]:
        """Whether the candidate won its cell, and the occupant that leaves the island for it."""
        cell = self.space.cell(self.columns.measures(ordinal))
        occupant = self.cells.get(cell)
        if occupant is not None:
            if self.columns.fitness[ordinal] <= self.columns.fitness[occupant]:
                return False, None
            self.take(occupant)
        self.put(ordinal, cell)
        return True, occupant

    def rescale(self, members: Iterable[int]) -> tuple[list[int], list[int]]:
        """Place all again after a range grew: each cell gets the first of `members`, which fall in fitness, the older
        of equals first. Returns those that lost their place as an elite, and those that became one. O(members)."""
        placed: dict[Cell, int] = {}
        for ordinal in members:
            placed.setdefault(self.space.cell(self.columns.measures(ordinal)), ordinal)
        before, now = dict(self.cells), set(placed.values())
        lost = [ordinal for ordinal in before.values() if ordinal not in now]
        won = [ordinal for ordinal in placed.values() if ordinal not in self._cell_of]
        for ordinal in lost:
            self.take(ordinal)
        self.cells = placed
        for cell, ordinal in placed.items():
            self._cell_of[ordinal] = cell
        for ordinal in won:
            self.put(ordinal, self._cell_of[ordinal])
        self.changed.update(c for c in before.keys() | placed.keys() if before.get(c) != placed.get(c))
        return lost, won

    def near(self, ordinal: int, rng: np.random.Generator) -> int | None:
        """The elite of a random cell at most two bins away in each dimension from the candidate's cell, if any."""
        home = self.space.cell(self.columns.measures(ordinal))
        cell = tuple(
            max(0, min(bins - 1, c + index_below(5, rng) - 2)) for c, bins in zip(home, self.space.bins, strict=True)
        )
        return self.cells.get(cell)


LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e12
"""A candidate of no fitness is still drawn now and then (OpenEvolve's floor); the cap keeps the sums finite."""


class Island:
    """Candidates by ordinal; the members are all valid or all failed.

    visits: by ordinal, the stored groups whose parent that candidate was. Stored groups count and not selections, so
    that a resumed search has the counts of the one that was cut off
    """

    def __init__(self, columns: Columns, archive: GridArchive) -> None:
        self.columns = columns
        self.archive = archive
        self.front = IslandFront(columns)
        self.members: IndexedSet[int] = IndexedSet()
        self.migrants: set[int] = set()
        self.generation = 0
        self._ranked: list[tuple[float, int]] = []  # (fitness, -ordinal), least fit first
        self.visits: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, ordinal: int) -> bool:
        return ordinal in self.members

    @property
    def holds_valid(self) -> bool:
        """Whether its members are valid candidates; False when it is empty."""
        return bool(self.members) and bool(self.columns.valid[self.members.order[0]])

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
        fitness = np.asarray(self.columns.fitness)[self.members.order]
        sums = np.cumsum(np.clip(fitness, LEAST_WEIGHT, MOST_WEIGHT))
        place = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        return self.members.order[min(place, len(sums) - 1)]  # rounding may point one past the end


_WEIGHTINGS = 64


class IslandFront:
    """Ordinals, the oldest first; of equal reward vectors the oldest alone. One leaves only for another that dominates
    it: neither the cap nor a fitter answer in its cell takes the best of one goal out of it."""

    def __init__(self, columns: Columns) -> None:
        self.members: list[int] = []
        self._columns = columns
        self._rewards = np.zeros((0, columns.objectives))
        self._above: tuple[float, ...] | None = None  # what was last found to dominate an offer: it does so often
        self._pool: tuple[int, list[int]] = (0, [])  # most members, and they

    def offer(self, ordinal: int) -> None:
        """A valid candidate arrives. O(front x objectives)."""
        rewards = self._columns.rewards(ordinal)
        if self._above is not None and all(map(ge, self._above, rewards)):
            return
        vector = np.array(rewards)
        above = (self._rewards >= vector).all(axis=1)
        if above.any():
            self._above = tuple(self._rewards[above.argmax()].tolist())
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
