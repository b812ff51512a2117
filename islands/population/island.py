"""One island: its members, their order by fitness, and its archive."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedList

from islands.population.archive import Archive
from islands.population.columns import Columns
from islands.population.weighted_sampler import WeightedSampler


class Island:
    """Candidates by ordinal. Join and leave cost O(log members); the members are all valid or all failed.

    A visit is a stored group whose parent was a member of this island. Stored groups count and not selections, so that
    a resumed search has the counts of the one that was cut off.
    """

    def __init__(self, columns: Columns, archive: Archive, orders_by_visits: bool) -> None:
        self.columns = columns
        self.archive = archive
        self.members: WeightedSampler[int] = WeightedSampler()
        self.migrants: set[int] = set()
        self.generation = 0
        self._ranked: SortedList = SortedList()  # (fitness, -ordinal), least fit first
        self._orders_by_visits = orders_by_visits
        self._visits: dict[int, int] = {}
        self.by_visits: dict[int, SortedList] = {}  # visits -> the members with that many, least fit first
        self.total_visits = 0

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, ordinal: int) -> bool:
        return ordinal in self.members

    @property
    def holds_valid(self) -> bool:
        """Whether its members are valid candidates; False when it is empty."""
        return len(self.members) > 0 and bool(self.columns.valid[self.members.items[0]])

    def join(self, ordinal: int) -> None:
        fitness = self.columns.fitness[ordinal]
        self.members.add(ordinal, fitness)
        self._ranked.add((fitness, -ordinal))
        if self._orders_by_visits:
            self._file(ordinal)

    def leave(self, ordinal: int) -> None:
        """Remove a member from everything the island keeps, its cell included."""
        self.members.discard(ordinal)
        self._ranked.remove((self.columns.fitness[ordinal], -ordinal))
        self.archive.discard(ordinal)
        self.migrants.discard(ordinal)
        if self._orders_by_visits:
            self._unfile(ordinal)

    def top(self, n: int) -> list[int]:
        """The n fittest, fittest first; the older of two equals comes first."""
        return [-age for _, age in self._ranked[: -n - 1 : -1]] if n > 0 else []

    def falling(self) -> Iterator[int]:
        """Every member, fittest first, lazily."""
        return (-age for _, age in reversed(self._ranked))

    def rank(self, ordinal: int) -> int:
        """0 for the fittest member. O(log members)."""
        below: int = self._ranked.index((self.columns.fitness[ordinal], -ordinal))
        return len(self._ranked) - 1 - below

    def visits(self, ordinal: int) -> int:
        """The stored groups that had this candidate as their parent."""
        return self._visits.get(ordinal, 0)

    def visit(self, ordinal: int) -> None:
        """Count a group that had this candidate as its parent."""
        self.total_visits += 1
        present = self._orders_by_visits and ordinal in self.members
        if present:
            self._unfile(ordinal)
        self._visits[ordinal] = self.visits(ordinal) + 1
        if present:
            self._file(ordinal)

    def _file(self, ordinal: int) -> None:
        self.by_visits.setdefault(self.visits(ordinal), SortedList()).add((self.columns.fitness[ordinal], -ordinal))

    def _unfile(self, ordinal: int) -> None:
        visits = self.visits(ordinal)
        shelf = self.by_visits[visits]
        shelf.remove((self.columns.fitness[ordinal], -ordinal))
        if not shelf:
            del self.by_visits[visits]
