"""The in-memory part of a population: columns, feature space, islands. Independent of databases.

`Population` feeds it while a search runs and feeds it the stored groups when one resumes; both go through the same
calls, so both arrive at the same state.
"""

from __future__ import annotations

from collections.abc import Sequence

from islands.population.archipelago import Archipelago, Entry
from islands.population.columns import Columns
from islands.population.config import PopulationConfig
from islands.population.features import FeatureSpace, check_features, default_dimensions
from islands.population.migration import Move, plan
from problems.contract import Score
from problems.types import ScoredAnswer


class Memory:
    """The numbers of every candidate and the state of every island."""

    def __init__(
        self, config: PopulationConfig, objectives: Sequence[str], dimensions: Sequence[str] | None = None
    ) -> None:
        """dimensions: those settled by an earlier process, if any. Raises ValueError for one that fits no objective."""
        self.config = config = config.resolve(len(objectives))
        self.columns = Columns(len(objectives))
        self.space = FeatureSpace(objectives, config.bins, config.diversity_reference_size)
        self.archipelago = Archipelago(config, self.columns, self.space)
        if dimensions or config.feature_dimensions:
            self.space.settle(dimensions or config.feature_dimensions or ())

    @property
    def islands(self) -> int:
        return self.archipelago.config.islands

    def check(self, scores: Sequence[Score], problem: str) -> None:
        """Raise ScorerFault if the grid needs a feature that a valid answer lacks, even if the first of these
        answers would settle the grid."""
        dimensions = self.space.dimensions
        for score in scores:
            if score.error is None:
                if dimensions is None:
                    dimensions = default_dimensions(tuple(score.features))
                check_features(score, dimensions, problem)

    def settle(self, features: Sequence[str]) -> None:
        """The first valid answer came with these features: they decide the grid unless the configuration did."""
        if self.space.dimensions is None:
            self.space.settle(default_dimensions(features))

    def measure(self, answers: Sequence[ScoredAnswer]) -> list[tuple[float, ...]]:
        """(f,) for each answer, () for failed ones. Valid ones become references of diversity while some are missing,
        so each answer is measured once, in the order in which it is stored."""
        measured: list[tuple[float, ...]] = []
        for answer in answers:
            if answer.score.error is not None:
                measured.append(())
                continue
            self.settle(tuple(answer.score.features))
            measured.append(self.space.measure(answer.text, answer.score))
            self.space.add_reference(answer.text)
        return measured

    def known(self, identity: bytes) -> int | None:
        """Candidate id of an identity."""
        ordinal = self.columns.known(identity)
        return None if ordinal is None else self.columns.ids[ordinal]

    def id_of(self, identity: bytes) -> int:
        """Candidate id of an identity that is stored. Raises KeyError."""
        known = self.known(identity)
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

    def seed(self, id: int) -> Entry:
        """The newest candidate enters every island."""
        ordinal = self.columns.ordinal(id)
        if self.columns.valid[ordinal]:
            self.archipelago.observe(ordinal)
        entries = [self.archipelago.enter(ordinal, number) for number in range(self.islands)]
        return Entry(entries[0].cell, entries[0].replaced, any(entry.improved for entry in entries))

    def group(self, island: int, parent: int | None, answers: Sequence[int], born: set[int]) -> list[Entry]:
        """A stored group takes effect: one Entry per answer (candidate ids, rollout by rollout). `born` holds the ids
        that the group brought; their first mention competes, every other one is a repeat."""
        islands, columns = self.archipelago, self.columns
        islands.advance_generation(island, None if parent is None else columns.ordinal(parent))
        entries, unborn = [], set(born)
        for id in answers:
            ordinal = columns.ordinal(id)
            if id in unborn:
                unborn.discard(id)
                if columns.valid[ordinal]:
                    islands.observe(ordinal)
                entries.append(islands.enter(ordinal, island))
            else:
                entries.append(islands.repeat(ordinal, island))
        return entries

    def planned_moves(self) -> list[tuple[int, int, int]] | None:
        """(source, target, candidate id) of the migration that is due, None if none is."""
        islands, config = self.archipelago.islands, self.archipelago.config
        if max(each.generation for each in islands) - self.archipelago.last_migration < config.migration_interval:
            return None
        moves = plan(islands, config.migration_rate, config.migration_basis)
        return [(move.source, move.target, self.columns.ids[move.candidate]) for move in moves]

    def migrate(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """Carry out a migration, planned or stored."""
        ordinal = self.columns.ordinal
        self.archipelago.migrate([Move(source, target, ordinal(candidate)) for source, target, candidate in moves])
