"""An island's archive: which candidates are its elites, and the cell each of them holds.

It keeps the elites' reward vectors as a matrix, for the strategies that weigh them all at once. It knows nothing of
databases or other islands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from islands.population.columns import Columns, index_below
from islands.population.features import Cell, FeatureSpace


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

    def cell_of(self, ordinal: int) -> Cell | None:
        return self._cell_of.get(ordinal)

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
