"""The population of one problem: OpenEvolve's behaviour at a cost that does not grow, every group durable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from islands.groups import CandidateReader, StoredCandidate, seeds, stored_groups
from islands.population import selection
from islands.population.archipelago import Archipelago
from islands.population.config import PopulationConfig
from islands.population.features import default_dimensions
from islands.population.island import cell_name
from islands.store import Store, Transaction
from islands.types import (
    FORMAT,
    NOTHING_SHOWN,
    REPLIES,
    Candidate,
    GroupSums,
    Placement,
    ProblemRecord,
    Selection,
)
from islands.writer import GroupWriter
from problems.contract import Score, ScorerFault
from problems.objectives import Reward
from problems.scoring import error_kind
from problems.types import ScoredAnswer, ScoredGroup, prompt_tokens


class Population:
    """Candidates, islands and archive of one problem of a run.

    Memory holds only numbers; texts come from the database by id. For one thread at a time. All randomness comes from
    the generator passed to `select`, so equal calls give equal states, on every database.

    plateau: the most groups in a row that brought no new best candidate
    sums: of the group that was added last

    When a transaction that this population took part in is rolled back, memory is ahead of the database: every later
    call raises RuntimeError; make a new Population and call `advance(None)`.
    """

    def __init__(self, store: Store, problem: ProblemRecord, config: PopulationConfig) -> None:
        """Empty until `seed` or `advance`. Raises ValueError for a feature dimension that names no objective."""
        self.problem = problem
        self.sequence = -1
        self.plateau = self._unimproved = 0
        self.sums: GroupSums
        self._store = store
        self._reader = CandidateReader(store)
        self._writer = GroupWriter(store, problem)
        self._archipelago = Archipelago(config, problem.objectives, problem.dimensions)
        self.config = self._archipelago.config
        self._ahead = False
        self._joined: Transaction | None = None
        self._seeds = 0
        self._group: int | None = None  # the database id of the last group
        self._dimensions_stored = problem.dimensions is not None

    def check(self, group: ScoredGroup) -> None:
        """Raise ScorerFault if `add` would, before a transaction is begun for the group."""
        self._check([answer.score for answer in group.all_answers()])

    def add(self, group: ScoredGroup, tx: Transaction) -> list[Placement]:
        """Store a group and let its new answers compete on its island: one Placement per answer, rollout by rollout.
        A repeat of a stored answer is linked, not stored again; it joins the island only if it wins a cell there and is
        not a member. Sequences must rise. Raises ScorerFault for a number of rewards or a feature that does not fit.
        """
        self._join(tx)
        self._check_island(group.island)
        if group.problem != self.problem.id:
            raise ValueError(f"a group of problem {group.problem} was given to the population of {self.problem.id}")
        if group.sequence <= self.sequence:
            raise ValueError(f"group {group.sequence} of {self.problem.name} comes after group {self.sequence}")
        self.check(group)
        generation = self._archipelago.generation_after(group.parent)
        answers = group.all_answers()
        fresh = list(
            {a.identity: a for a in reversed(answers) if self._archipelago.columns.known(a.identity) is None}.values()
        )
        fresh.reverse()
        measures = self._archipelago.measure(fresh)
        self._group, ids = self._writer.write_group(tx, group, fresh, measures, generation, self._archipelago.id_of)
        self.sequence = group.sequence
        for answer, measured, id in zip(fresh, measures, ids, strict=True):
            self._remember(id, answer, measured, generation, group.island, group.parent)
        stored, born = [self._archipelago.id_of(a.identity) for a in answers], set(ids)
        best = self._archipelago.best
        improved = self._archipelago.add_group(group.island, group.parent, stored, born)
        self._count_plateau(best)
        placements = []
        for id, is_best in zip(stored, improved, strict=True):
            placements.append(Placement(id, is_best, id in born))
            born.discard(id)
        rise = self._write_best(tx, any(improved))
        self.sums = sum_group(group, placements, rise)
        self._writer.write_sums(tx, self._group, self.sums, self._archipelago.changed_cells())
        return placements

    def seed(self, answer: ScoredAnswer, tx: Transaction) -> Placement:
        """Store an answer that the search starts from: generation 0, no rollout, a member of every island. One that is
        stored already does nothing. Raises RuntimeError once groups are stored, ScorerFault as `add` does."""
        self._join(tx)
        if self.sequence >= 0:
            raise RuntimeError(f"{self.problem.name}: a seed comes before the first group")
        known = self._archipelago.columns.known(answer.identity)
        if known is not None:
            return Placement(known, False, False)
        self._check([answer.score])
        measures = self._archipelago.measure([answer])
        (id,) = self._writer.write_candidates(tx, [answer], measures, None, -1, 0, 0, None)
        self._remember(id, answer, measures[0], 0, 0, None)
        self._seeds += 1
        improved = self._archipelago.seed(id)
        self._write_best(tx, improved)
        return Placement(id, improved, True)

    def migrate_if_due(self, tx: Transaction) -> int:
        """Migrate once the busiest island is migration_interval generations past the last time; copies made. Belongs
        in the transaction of the group that made it due."""
        self._join(tx)
        moves = self._archipelago.planned_moves()
        if moves is None:
            return 0
        generation = max(island.generation for island in self._archipelago.islands)
        self._writer.write_migration(tx, self.sequence, generation, moves)
        self._archipelago.migrate(moves)
        if self._group is not None and (cells := self._archipelago.changed_cells()):
            self._writer.add_cells(tx, self._group, cells)
        return len(moves)

    # -- resuming

    def advance(self, upto_sequence: int | None) -> None:
        """Replay the stored groups up to and including that sequence (None: all), from where the last call stopped.
        The state is then the one right after that group was stored: equal generators make equal selections. -1
        replays only the seeds."""
        self._require_current()
        references: list[int] = []
        if not self._seeds:
            for seed in seeds(self._store, self.problem.id):
                self._seeds += 1
                self._replay(seed, references)
                self._archipelago.seed(seed.id)
        for group in stored_groups(self._store, self.problem.id, self.sequence, upto_sequence):
            for candidate in group.born.values():
                self._replay(candidate, references)
            self.sequence = group.sequence
            best = self._archipelago.best
            self._archipelago.add_group(group.island, group.parent, group.answers, set(group.born))
            self._count_plateau(best)
            if group.moves is not None:
                self._archipelago.migrate(group.moves)
        for reference in self._reader.fetch(references):
            self._archipelago.space.add_reference(reference.text)
        if self.sequence >= 0:  # those of seeds are stored with the first group
            self._archipelago.changed_cells()

    def _replay(self, stored: StoredCandidate, references: list[int]) -> None:
        space = self._archipelago.space
        if stored.valid:
            if space.dimensions is None:
                space.settle(default_dimensions(tuple(json.loads(stored.features))))
            if len(references) < space.references_missing:
                references.append(stored.id)
        self._archipelago.columns.append(
            stored.id, bytes(stored.identity), stored.fitness, stored.rewards, stored.measures, stored.generation,
            stored.valid,
        )  # fmt: skip

    def _count_plateau(self, best: int | None) -> None:
        """Count a group. best: the best candidate before it"""
        self._unimproved = self._unimproved + 1 if self._archipelago.best == best else 0
        self.plateau = max(self.plateau, self._unimproved)

    # -- choosing and reading

    def select(self, island: int, rng: np.random.Generator) -> Selection:
        """Choose a parent and its inspirations for a prompt of that island, with one query for the texts that are
        not cached. An empty island borrows from a random inhabited one. Changes only the cache."""
        self._require_current()
        self._check_island(island)
        parent, inspirations, best = selection.choose(self._archipelago, island, rng)
        if parent is None:
            return NOTHING_SHOWN
        ids = self._archipelago.columns.ids
        wanted = list(dict.fromkeys([parent, *inspirations, *best]))
        records = dict(zip(wanted, self._reader.fetch([ids[o] for o in wanted]), strict=True))
        return Selection(records[parent], tuple(records[o] for o in inspirations), tuple(records[o] for o in best))

    def known(self, identity: bytes) -> int | None:
        """The stored candidate with that identity."""
        return self._archipelago.columns.known(identity)

    def candidate(self, candidate_id: int) -> Candidate:
        """A candidate by id. Raises KeyError."""
        return self._reader.fetch([candidate_id])[0]

    @property
    def first(self) -> Candidate:
        """The seed answer. Raises IndexError before it is stored."""
        return self.candidate(self._archipelago.columns.ids[0])

    def is_seed(self, candidate_id: int) -> bool:
        """Whether the search started from this candidate. Raises KeyError."""
        return self._archipelago.columns.ordinal(candidate_id) < self._seeds

    @property
    def best(self) -> tuple[int, float, tuple[float, ...]] | None:
        """(candidate id, fitness, rewards) of the fittest valid candidate ever stored; None before the first."""
        ordinal, columns = self._archipelago.best, self._archipelago.columns
        if ordinal is None or not columns.valid[ordinal]:
            return None
        return columns.ids[ordinal], columns.fitness[ordinal], columns.rewards(ordinal)

    @property
    def earned(self) -> bool:
        """Whether an answer is better than all valid ones that the search started from; where it started from none,
        whether one has another score than a failed answer."""
        best, columns = self._archipelago.best, self._archipelago.columns
        if best is None or not columns.valid[best]:
            return False
        if any(columns.valid[: self._seeds]):
            return best >= self._seeds  # the older of equals is the best
        return bool(columns.successful)

    @property
    def size(self) -> int:
        """Distinct candidates stored, evicted and failed ones included."""
        return len(self._archipelago.columns)

    def cells(self, island: int) -> dict[str, int]:
        """Occupied cells of an island -> candidate id."""
        self._check_island(island)
        ids = self._archipelago.columns.ids
        occupied = self._archipelago.islands[island].archive.cells
        return {cell_name(cell): ids[ordinal] for cell, ordinal in sorted(occupied.items())}

    def members(self, island: int) -> list[int]:
        """Candidate ids on an island, fittest first."""
        self._check_island(island)
        ids = self._archipelago.columns.ids
        return [ids[ordinal] for ordinal in self._archipelago.islands[island].falling()]

    def _require_current(self) -> None:
        if self._ahead:
            raise RuntimeError(
                f"{self.problem.name}: a transaction was rolled back; build the population again and advance it"
            )

    def _join(self, tx: Transaction) -> None:
        self._require_current()
        if self._joined is not tx:
            self._joined = tx
            tx.on_end.append(self._end)

    def _end(self, committed: bool) -> None:
        self._joined = None
        self._ahead = not committed
        self._reader.unpin(committed)

    def _check(self, scores: Sequence[Score]) -> None:
        for score in scores:
            if len(score.rewards) != len(self.problem.objectives):
                raise ScorerFault(
                    f"{self.problem.name}: the scorer gave {len(score.rewards)} rewards for the "
                    f"{len(self.problem.objectives)} objectives {', '.join(self.problem.objectives)}"
                )
        self._archipelago.check(scores, self.problem.name)

    def _check_island(self, island: int) -> None:
        if not 0 <= island < self.config.islands:
            raise ValueError(f"there is no island {island}; they are 0 to {self.config.islands - 1}")

    def _remember(
        self,
        id: int,
        answer: ScoredAnswer,
        measures: tuple[float, ...],
        generation: int,
        island: int,
        parent: int | None,
    ) -> None:
        score = answer.score
        self._archipelago.columns.append(
            id, answer.identity, score.fitness, score.rewards, measures, generation, score.error is None
        )
        self._reader.pinned[id] = Candidate(
            id, answer.text, tuple(score.rewards), Reward(score.fitness), dict(score.features), score.feedback,
            score.error, generation, island, parent, score.values,
        )  # fmt: skip

    def _write_best(self, tx: Transaction, improved: bool) -> tuple[int, float] | None:
        """Write the problem's new best, if there is one, and its settled dimensions; the new best."""
        values: dict[str, Any] = {}
        rise = None
        if improved:
            best = self.best
            assert best is not None
            rise = best[:2]
            values = {"best": rise[0], "best_fitness": rise[1]}
        if not self._dimensions_stored and self._archipelago.space.dimensions is not None:
            values["dimensions"] = list(self._archipelago.space.dimensions)
            self._dimensions_stored = True
        if values:
            self._writer.write_problem(tx, **values)
        return rise


# -- what a group brought, summed up as it is stored ------------------------------------------------------------------


def sum_group(group: ScoredGroup, placements: Sequence[Placement], best: tuple[int, float] | None) -> GroupSums:
    """The sums of a group that was just placed. best: (candidate id, fitness) of the problem's best, if the group
    brought it"""
    answers, rollouts = group.all_answers(), [scored.rollout for scored in group.rollouts]
    errors = Counter[str]()
    for scored in group.rollouts:
        if (lacking := scored.unanswered) is not None:
            errors[REPLIES[lacking]] += 1
        elif not scored.answers:
            errors[FORMAT] += 1
    for answer, placement in zip(answers, placements, strict=True):
        if placement.new and answer.score.error:
            errors[error_kind(answer.score.error)] += 1
    return GroupSums(
        given=len(answers),
        born=sum(place.new for place in placements),
        repeats=sum(not place.new for place in placements),
        missing=sum(max(0, group.answers - len(scored.answers)) for scored in group.rollouts),
        tokens=sum(rollout.tokens for rollout in rollouts),
        prompt_tokens=prompt_tokens(rollouts),
        cost=sum(rollout.usage.cost for rollout in rollouts if rollout.usage is not None),
        scored_seconds=sum(answer.seconds for answer in answers),
        errors=errors,
        best=None if best is None else best[0],
        best_fitness=None if best is None else best[1],
    )
