"""Writes answers found elsewhere as the history of a run, in bulk.

The rows are those of a search that found these answers: a prompt group for each answer, seeds without one, copies as
migrations. A Population that advances over it therefore arrives at the state that is written here, and a search that
resumes the run continues from there. The groups have no tokens, so training cannot use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, update

from islands.db.blobs import pack_floats, pack_ids
from islands.db.schema import Answer, Candidate, PromptGroup, Rollout
from islands.db.store import Store
from islands.db.totals import Totals, add_totals
from islands.db.transaction import Transaction
from islands.db.writer import GroupWriter
from islands.population.config import PopulationConfig
from islands.population.memory import Memory
from islands.population.operator_counts import recount
from islands.types import ProblemRecord
from problems.scoring import error_kind
from problems.types import ScoredAnswer

NO_TEMPERATURE = 0.0
"""The temperature of an imported group: it is unknown, and training leaves out samples of temperature 0."""

_GROUPS = insert(PromptGroup).returning(PromptGroup.c.id, sort_by_parameter_order=True)
_ROLLOUTS = insert(Rollout).returning(Rollout.c.id, sort_by_parameter_order=True)
_CANDIDATES = insert(Candidate).returning(Candidate.c.id, sort_by_parameter_order=True)
_BIRTHS = (
    update(Candidate)
    .where(Candidate.c.id == bindparam("candidate"))
    .values(group_id=bindparam("group"), parent_id=bindparam("parent"))
)


@dataclass(frozen=True, eq=False)
class AdoptedAnswer:
    """A distinct answer, in the order of first arrival.

    parent: the place of an earlier answer, or None; created: seconds since 1970, UTC
    """

    answer: ScoredAnswer
    island: int
    generation: int
    parent: int | None
    created: float
    seed: bool


@dataclass(frozen=True, eq=False)
class AdoptedPrompt:
    """An answer of an iteration, including repeats: the prompt and the reply, as far as they are known."""

    candidate: int
    island: int
    parent: int | None
    created: float
    version: str
    system: str
    user: str
    text: str


@dataclass(frozen=True, eq=False)
class Copied:
    """A copy of an answer on another island, made after the group before it in the order."""

    candidate: int
    source: int
    target: int


class Adoption:
    """Writes one problem's history into an empty problem, inside the caller's transaction. Used once.

    ids: of the candidates, by place; last: sequence of the last group, -1 if there are only seeds
    solved: sequence of the group that first reached the target, -1 for a seed, None if none did
    """

    def __init__(self, store: Store, problem: ProblemRecord, config: PopulationConfig) -> None:
        self._store = store
        self._problem = problem
        self._memory = Memory(config, problem.objectives, problem.dimensions)
        self._writer = GroupWriter(store, problem)
        self.ids: list[int] = []
        self.last = -1
        self.solved: int | None = None
        self._improvements: list[tuple[int, int, float]] = []
        self._migrations = 0

    def write(self, tx: Transaction, answers: Sequence[AdoptedAnswer], order: Sequence[AdoptedPrompt | Copied]) -> None:
        """Seeds of `answers` first, then `order`. Raises ScorerFault if an answer lacks a feature of the grid."""
        self._memory.check([entry.answer.score for entry in answers], self._problem.name)
        measures = [self._memory.measure([entry.answer])[0] for entry in answers]
        groups = [entry for entry in order if isinstance(entry, AdoptedPrompt)]
        born: dict[int, int] = {}  # candidate -> sequence of the group that brought it
        for sequence, asked in enumerate(groups):
            if not answers[asked.candidate].seed:
                born.setdefault(asked.candidate, sequence)
        rows = [
            self._candidate(entry, measured, born.get(number, -1))
            for number, (entry, measured) in enumerate(zip(answers, measures, strict=True))
        ]
        self.ids = list(tx.connection.execute(_CANDIDATES, rows).scalars())
        group_ids = self._write_groups(tx, groups)
        self._write_answers(tx, groups, group_ids, born)
        births = [
            {
                "candidate": self.ids[number],
                "group": group_ids[sequence],
                "parent": self._id(answers[number].parent),
            }
            for number, sequence in born.items()
        ]
        if births:
            tx.connection.execute(_BIRTHS, births)
        self.last = len(groups) - 1
        self._remember(tx, answers, measures, order, born)
        recount(tx.connection, self._problem, compare=False)
        failed = [answers[number].answer.score.error for number in born]
        counted = Totals(groups=len(groups), answers=len(groups), repeats=len(groups) - len(born))
        counted.errors.update(error_kind(error) for error in failed if error is not None)
        counted.migrations = self._migrations
        add_totals(self._store, self._problem.id, counted, tx)

    def _candidate(self, entry: AdoptedAnswer, measured: tuple[float, ...], sequence: int) -> dict[str, Any]:
        score = entry.answer.score
        return dict(
            problem_id=self._problem.id, group_id=None, sequence=sequence, identity=entry.answer.identity,
            text=entry.answer.text, rewards=list(map(float, score.rewards)), fitness=float(score.fitness),
            features={name: float(value) for name, value in score.features.items()}, measures=list(measured),
            feedback=score.feedback, error=score.error, generation=entry.generation, island=entry.island,
            parent_id=None, created=entry.created,
        )  # fmt: skip

    def _id(self, number: int | None) -> int | None:
        return None if number is None else self.ids[number]

    def _write_groups(self, tx: Transaction, groups: Sequence[AdoptedPrompt]) -> list[int]:
        run = self._problem.run_id
        rows: list[dict[str, Any]] = [
            dict(
                run_id=run, problem_id=self._problem.id, sequence=sequence, iteration=sequence, island=prompt.island,
                parent_id=self._id(prompt.parent), inspirations=[], user=prompt.user, system=prompt.system, prefill="",
                operator=0, prompt_ids=pack_ids([]), stream=0, seed=0, temperature=NO_TEMPERATURE, answers=1,
                policy_version_id=self._store.policy_version(run, prompt.version, tx), sampling_seconds=0.0,
                scoring_seconds=0.0, created=prompt.created,
            )
            for sequence, prompt in enumerate(groups)
        ]  # fmt: skip
        return list(tx.connection.execute(_GROUPS, rows).scalars()) if rows else []

    def _write_answers(
        self, tx: Transaction, groups: Sequence[AdoptedPrompt], group_ids: Sequence[int], born: dict[int, int]
    ) -> None:
        if not groups:
            return
        rollouts = [
            dict(
                group_id=id, position=0, text=prompt.text, token_ids=pack_ids([]), logprobs=pack_floats([]),
                finish="stop", format_error=None,
            )
            for id, prompt in zip(group_ids, groups, strict=True)
        ]  # fmt: skip
        rollout_ids = tx.connection.execute(_ROLLOUTS, rollouts).scalars().all()
        links = [
            dict(
                rollout_id=rollout, position=0, candidate_id=self.ids[prompt.candidate],
                repeat=born.get(prompt.candidate) != sequence, seconds=0.0,
            )
            for sequence, (rollout, prompt) in enumerate(zip(rollout_ids, groups, strict=True))
        ]  # fmt: skip
        tx.connection.execute(insert(Answer), links)

    def _remember(
        self,
        tx: Transaction,
        answers: Sequence[AdoptedAnswer],
        measures: Sequence[tuple[float, ...]],
        order: Sequence[AdoptedPrompt | Copied],
        born: dict[int, int],
    ) -> None:
        """Let all of it happen in memory, as a resume will, and write what readers without an index need."""
        memory, target = self._memory, self._problem.target
        sequence, moves = -1, list[tuple[int, int, int]]()

        def append(number: int) -> None:
            entry, score = answers[number], answers[number].answer.score
            memory.columns.append(
                self.ids[number], entry.answer.identity, score.fitness, score.rewards, measures[number],
                entry.generation, score.error is None,
            )  # fmt: skip
            if target is not None and self.solved is None and score.error is None and score.fitness >= target:
                self.solved = sequence

        for number, entry in enumerate(answers):
            if entry.seed:
                append(number)
                memory.seed(self.ids[number])
        self._note_improvement(-1)
        for event in order:
            if isinstance(event, Copied):
                if sequence >= 0:  # before the first group there are only seeds, which live on every island
                    moves.append((event.source, event.target, self.ids[event.candidate]))
                continue
            self._migrate(tx, sequence, moves)
            sequence += 1
            fresh = born.get(event.candidate) == sequence
            if fresh:
                append(event.candidate)
            id = self.ids[event.candidate]
            memory.group(event.island, self._id(event.parent), [id], {id} if fresh else set())
            self._note_improvement(sequence)
        self._migrate(tx, sequence, moves)
        self._write_state(tx, sequence)

    def _note_improvement(self, sequence: int) -> None:
        memory = self._memory
        best = memory.archipelago.best
        if best is not None and memory.columns.valid[best]:
            step = (sequence, memory.columns.ids[best], memory.columns.fitness[best])
            if not self._improvements or step[1] != self._improvements[-1][1]:
                self._improvements.append(step)

    def _migrate(self, tx: Transaction, sequence: int, moves: list[tuple[int, int, int]]) -> None:
        if not moves:
            return
        generation = max(island.generation for island in self._memory.archipelago.islands)
        self._writer.write_migration(tx, sequence, generation, moves)
        self._memory.migrate(moves)
        self._migrations += 1
        moves.clear()

    def _write_state(self, tx: Transaction, sequence: int) -> None:
        memory, ids = self._memory, self._memory.columns.ids
        cells = memory.archipelago.changed_cells()
        occupied = [(island, cell, ids[ordinal]) for island, cell, ordinal in cells if ordinal is not None]
        self._writer.write_cells(tx, sequence, occupied)
        if self._improvements:
            _, id, fitness = self._improvements[-1]
            self._writer.write_best(tx, id, fitness)
            self._writer.write_improvements(tx, self._improvements)
        if memory.space.dimensions is not None:
            self._writer.write_dimensions(tx, memory.space.dimensions)
