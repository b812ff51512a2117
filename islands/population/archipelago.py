"""The whole population in memory: the numbers of every candidate, islands, hall of fame, cap and migration. Independent
of databases, texts and randomness.

The same calls in the same order give the same state: `Population` makes them while a search runs, and makes them again
from the stored groups when one resumes.

Rules, OpenEvolve's unless noted:
- A newcomer becomes a member of its island whether it wins a cell or not; the elite that it displaces leaves the
  island.
- A failed candidate is a member only while its island has no valid one, and never an elite. (OpenEvolve lets it compete
  with fitness 0, so it can keep a cell of odd features forever.)
- When the bins are rescaled, each cell gets the fittest of the members that fall into it; an elite that loses its cell
  stays as an ordinary member (OpenEvolve never re-places).
- A repeat of a stored candidate joins another island only if it wins a cell there. (OpenEvolve
  stores the text again and lets it compete; this keeps the part that can matter.)
- Over the cap the least fit member that is not an elite is removed, then the least fit elite; never the newcomer, never
  the best.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice

import numpy as np

from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace, check_features, default_dimensions
from islands.population.island import Columns, GridArchive, IndexedSet, Island, cell_name
from problems.contract import Score
from problems.types import ScoredAnswer

Move = tuple[int, int, int]
"""A copy from one island to another: (source, target, candidate)."""
_COUNTED = 200
"""Members that the share of an island which migrates is taken of at most: it bounds a migration's cost."""


class Archipelago:
    """The islands of one problem, and its candidates by ordinal (islands.population.island)."""

    def __init__(
        self, config: PopulationConfig, objectives: Sequence[str], dimensions: Sequence[str] | None = None
    ) -> None:
        """dimensions: those settled by an earlier process, if any. Raises ValueError for one that fits no objective."""
        self.config = config = config.resolve(len(objectives))
        self.columns = columns = Columns(len(objectives))
        self.space = FeatureSpace(objectives, config.bins, config.diversity_reference_size)
        if dimensions or config.feature_dimensions:
            self.space.settle(dimensions or config.feature_dimensions or ())
        self.islands = [Island(columns, GridArchive(columns, self.space)) for _ in range(config.islands)]
        self.hall = HallOfFame(columns, config.archive_size, config.islands)
        self.best: int | None = None
        self.members = 0
        self._most = math.inf if config.population_size is None else config.population_size
        self.last_migration = 0
        # (valid, fitness, ordinal, island), first to be removed first; kept only if there is a cap
        self._ordinary: list[_Key] = []
        self._elite: list[_Key] = []

    def check(self, scores: Sequence[Score], problem: str) -> None:
        """Raise ScorerFault if the grid needs a feature that a valid answer lacks, even if the first of these
        answers would settle the grid."""
        dimensions = self.space.dimensions
        for score in scores:
            if score.error is None:
                if dimensions is None:
                    dimensions = default_dimensions(tuple(score.features))
                check_features(score, dimensions, problem)

    def measure(self, answers: Sequence[ScoredAnswer]) -> list[tuple[float, ...]]:
        """(f,) for each answer, () for failed ones; each is measured once, in the order in which it is stored."""
        return [() if one.score.error is not None else self.space.measure(one.text, one.score) for one in answers]

    def id_of(self, identity: bytes) -> int:
        """Candidate id of an identity that is stored. Raises KeyError."""
        known = self.columns.known(identity)
        if known is None:
            raise KeyError(identity.hex())
        return known

    def generation_after(self, parent: int | None) -> int:
        """Generation of a child. Raises ValueError for a parent that is no candidate here."""
        if parent is None:
            return 0
        try:
            return self.columns.generations[self.columns.ordinal(parent)] + 1
        except KeyError:
            raise ValueError(f"parent {parent} is not a candidate of this problem") from None

    def seed(self, id: int) -> bool:
        """The newest candidate enters every island. Whether it is the new best."""
        ordinal = self.columns.ordinal(id)
        if self.columns.valid[ordinal]:
            self.observe(ordinal)
        return any([self.enter(ordinal, number) for number in range(len(self.islands))])

    def add_group(self, island: int, parent: int | None, answers: Sequence[int], born: set[int]) -> list[bool]:
        """A stored group takes effect: whether each answer (candidate ids, rollout by rollout) is the new best. `born`
        holds the ids that the group brought; their first mention competes, every other one is a repeat."""
        columns, improved, unborn = self.columns, list[bool](), set(born)
        self.islands[island].generation += 1
        if parent is not None:
            self.islands[island].visits[columns.ordinal(parent)] += 1
        for id in answers:
            ordinal = columns.ordinal(id)
            if id in unborn:
                unborn.discard(id)
                if columns.valid[ordinal]:
                    self.observe(ordinal)
                improved.append(self.enter(ordinal, island))
            else:
                improved.append(self.repeat(ordinal, island))
        return improved

    def observe(self, ordinal: int) -> None:
        """Let the feature ranges hold a new valid candidate, and place the members again if a range grew."""
        if not self.space.observe(self.columns.measures(ordinal)):
            return
        for number, island in enumerate(self.islands):
            if not island.holds_valid:
                continue
            lost, won = island.archive.rescale(island.falling())
            if self.config.population_size is not None:
                self._move(lost, number, self._elite, self._ordinary)
                self._move(won, number, self._ordinary, self._elite)

    def enter(self, ordinal: int, number: int, migrant: bool = False) -> bool:
        """A candidate arrives on an island that lacks it; over the cap others leave. Whether it is the new best."""
        island, improved = self.islands[number], False
        if self.columns.valid[ordinal]:
            if not island.holds_valid:
                for failed in list(island.members):  # each was paid for when it joined
                    self._leave(failed, number)
            won, displaced = island.archive.offer(ordinal)
            if displaced is not None:
                self._leave(displaced, number)
            self._join(ordinal, number, elite=won)
            if migrant:
                island.migrants.add(ordinal)
            self.hall.offer(ordinal, number)
            improved = self.best is None or self.columns.rank_key(ordinal)[:2] > self.columns.rank_key(self.best)[:2]
        elif island.holds_valid:
            return False
        else:
            self._join(ordinal, number, elite=False)
        if improved or self.best is None:
            self.best = ordinal
        while self.members > self._most:
            newcomer = (ordinal, number)
            victim = self._least_fit(self._ordinary, newcomer) or self._least_fit(self._elite, newcomer)
            if victim is None:
                break
            self._leave(*victim)
        return improved

    def repeat(self, ordinal: int, number: int) -> bool:
        """A group of this island gave a stored candidate again. Whether it is the new best."""
        island = self.islands[number]
        if ordinal in island or not self.columns.valid[ordinal] or not island.archive.would_enter(ordinal):
            return False
        return self.enter(ordinal, number)

    def planned_moves(self) -> list[Move] | None:
        """The migration that is due, by candidate id; None if none is."""
        if max(island.generation for island in self.islands) - self.last_migration < self.config.migration_interval:
            return None
        moves = plan_moves(self.islands, self.config.migration_rate)
        return [(source, target, self.columns.ids[ordinal]) for source, target, ordinal in moves]

    def migrate(self, moves: Sequence[Move]) -> None:
        """Carry out a migration, planned or stored, by candidate id; an empty one too: it starts the next interval."""
        self.last_migration = max(island.generation for island in self.islands)
        for _, target, candidate in moves:
            ordinal = self.columns.ordinal(candidate)
            if ordinal not in self.islands[target]:
                self.enter(ordinal, target, migrant=True)

    def changed_cells(self) -> list[tuple[int, str, int | None]]:
        """(island, cell, candidate id or None) of every cell whose occupant may have changed since the last call."""
        changes: list[tuple[int, str, int | None]] = []
        for number, island in enumerate(self.islands):
            for cell in sorted(island.archive.changed):
                ordinal = island.archive.cells.get(cell)
                changes.append((number, cell_name(cell), None if ordinal is None else self.columns.ids[ordinal]))
            island.archive.changed.clear()
        return changes

    def _eviction_key(self, ordinal: int, number: int) -> _Key:
        return (bool(self.columns.valid[ordinal]), self.columns.fitness[ordinal], ordinal, number)

    def _join(self, ordinal: int, number: int, elite: bool) -> None:
        self.islands[number].join(ordinal)
        self.members += 1
        if self.config.population_size is not None:
            insort(self._elite if elite else self._ordinary, self._eviction_key(ordinal, number))

    def _leave(self, ordinal: int, number: int) -> None:
        if self.config.population_size is not None:
            key = self._eviction_key(ordinal, number)
            if not _remove(self._ordinary, key):
                _remove(self._elite, key)
        self.islands[number].leave(ordinal)
        self.hall.discard(ordinal, number)
        self.members -= 1

    def _move(self, ordinals: Sequence[int], number: int, source: list[_Key], target: list[_Key]) -> None:
        for ordinal in ordinals:
            key = self._eviction_key(ordinal, number)
            _remove(source, key)
            insort(target, key)

    def _least_fit(self, ranked: list[_Key], newcomer: tuple[int, int]) -> tuple[int, int] | None:
        """The first that may go; at most islands + 1 are passed over."""
        for _, _, ordinal, number in ranked:
            if ordinal != self.best and (ordinal, number) != newcomer:
                return ordinal, number
        return None


_Key = tuple[bool, float, int, int]


def _remove(ranked: list[_Key], key: _Key) -> bool:
    """Take a key out of a sorted list; whether it was there."""
    place = bisect_left(ranked, key)
    there = place < len(ranked) and ranked[place] == key
    if there:
        del ranked[place]
    return there


Member = tuple[int, int]
"""(ordinal, island): a candidate on an island. A copy that migrated is another member."""


class HallOfFame:
    """At most `size` members. While there is room every newcomer enters, as in OpenEvolve; then a newcomer must be
    fitter than the least fit, which leaves."""

    def __init__(self, columns: Columns, size: int, islands: int) -> None:
        self._columns = columns
        self._size = size
        self._ranked: list[_Key] = []  # (valid, fitness, -ordinal, island), least fit first
        self._all: IndexedSet[Member] = IndexedSet()
        self._of_island: list[IndexedSet[int]] = [IndexedSet() for _ in range(islands)]

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
        insort(self._ranked, (*self._columns.rank_key(ordinal), island))

    def discard(self, ordinal: int, island: int) -> None:
        if (ordinal, island) in self._all:
            self._all.discard((ordinal, island))
            self._of_island[island].discard(ordinal)
            _remove(self._ranked, (*self._columns.rank_key(ordinal), island))

    def draw(self, island: int, rng: np.random.Generator) -> int | None:
        """A uniform member of that island, else of any; None if there is none."""
        if len(self._of_island[island]):
            return self._of_island[island].draw(rng)
        return self._all.draw(rng)[0] if len(self._all) else None


def plan_moves(islands: Sequence[Island], rate: float) -> list[Move]:
    """The moves of one migration, by ordinal, island by island, fittest first.

    The top `rate` of each island's own members, at least one and counted over at most _COUNTED, goes to both
    neighbours, as in OpenEvolve. A copy that came by migration does not migrate again, nor take a place of those that
    do. No candidate goes to an island that has it, and failed ones stay; the next in rank do not take their places, so
    fewer may travel. All islands choose before anything moves. O(islands x (copies + rate x _COUNTED)).
    """
    moves: list[Move] = []
    planned: set[tuple[int, int]] = set()  # a seed lives on every island, and two of them may send it to a third
    for source, island in enumerate(islands):
        around = dict.fromkeys(place % len(islands) for place in (source + 1, source - 1))  # on the ring, each once
        around.pop(source, None)
        own = len(island) - len(island.migrants)
        travelling = max(1, int(min(own, _COUNTED) * rate))
        for candidate in islice((one for one in island.falling() if one not in island.migrants), travelling):
            if not island.columns.valid[candidate]:
                continue
            for target in around:
                if candidate not in islands[target] and (target, candidate) not in planned:
                    planned.add((target, candidate))
                    moves.append((source, target, candidate))
    return moves
