"""Writing groups, candidates, elites and migrations with bulk inserts: a handful of statements a group, no look-ups."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from sqlalchemy import Table, bindparam, delete, insert, update

from islands.db.blobs import pack_floats, pack_ids
from islands.db.schema import (
    Answer,
    Candidate,
    Elite,
    Improvement,
    Migration,
    OperatorCount,
    Problem,
    PromptGroup,
    Rollout,
)
from islands.db.store import Store
from islands.db.transaction import Transaction
from islands.db.upsert import insert_or
from islands.types import OperatorCount as Counted
from islands.types import ProblemRecord
from problems.types import ScoredAnswer, ScoredGroup

_GROUPS = insert(PromptGroup).returning(PromptGroup.c.id)
_ROLLOUTS = insert(Rollout).returning(Rollout.c.id)
_CANDIDATES = insert(Candidate).returning(Candidate.c.id)
_ANSWERS = insert(Answer)
_MIGRATIONS = insert(Migration)
_EMPTIED = delete(Elite).where(
    Elite.c.problem_id == bindparam("of_problem"),
    Elite.c.island == bindparam("of_island"),
    Elite.c.cell == bindparam("of_cell"),
)
_BEST = (
    update(Problem)
    .where(Problem.c.id == bindparam("of_problem"))
    .values(best=bindparam("candidate"), best_fitness=bindparam("reached"))
)
_COUNTED = [field.name for field in fields(Counted)]


@cache
def _upsert(dialect: str, of: Table, add: bool = False) -> Any:
    """Insert a row of this table, or replace the columns of the one with its primary key, or add to them."""
    statement = insert_or(of, dialect)
    new = {
        column.name: column + statement.excluded[column.name] if add else statement.excluded[column.name]
        for column in of.columns
        if not column.primary_key
    }
    return statement.on_conflict_do_update(index_elements=list(of.primary_key), set_=new)


class GroupWriter:
    """Writes for one problem, inside the caller's transactions."""

    def __init__(self, store: Store, problem: ProblemRecord) -> None:
        self._store = store
        self._problem = problem
        prepare = store.statements.prepare
        self._groups, self._rollouts, self._candidates = map(prepare, (_GROUPS, _ROLLOUTS, _CANDIDATES))
        self._answers, self._migrations = prepare(_ANSWERS), prepare(_MIGRATIONS)
        self._emptied, self._best = prepare(_EMPTIED), prepare(_BEST)
        self._elites = prepare(_upsert(store.dialect, Elite))
        self._improvements = prepare(_upsert(store.dialect, Improvement))
        self._counts = prepare(_upsert(store.dialect, OperatorCount, add=True))

    def write_group(
        self,
        tx: Transaction,
        group: ScoredGroup,
        fresh: Sequence[ScoredAnswer],
        measures: Sequence[tuple[float, ...]],
        generation: int,
        id_of: Callable[[bytes], int],
    ) -> list[int]:
        """The group, its rollouts, its `fresh` answers as candidates, and a link per answer; `id_of` gives the ids of
        repeats. Returns the candidates' ids, in the order of `fresh`."""
        now = time.time()
        prompt_ids = pack_ids(group.rollouts[0].rollout.prompt_ids) if group.rollouts else b""
        row = dict(
            run_id=self._problem.run_id, problem_id=group.problem, sequence=group.sequence, iteration=group.iteration,
            island=group.island, parent_id=group.parent, inspirations=list(group.inspirations),
            user=group.prompt.user, system=group.prompt.system, prefill=group.prompt.prefill, prompt_ids=prompt_ids,
            stream=group.prompt.stream, seed=group.seed, temperature=group.temperature, answers=group.answers,
            operator=group.operator,
            policy_version_id=self._store.policy_version(self._problem.run_id, group.policy_version, tx),
            sampling_seconds=group.sampling_seconds, scoring_seconds=group.scoring_seconds, created=now,
        )  # fmt: skip
        (group_id,) = self._groups.ids(tx.connection, [row])
        ids = self.write_candidates(
            tx, fresh, measures, group_id, group.sequence, generation, group.island, group.parent
        )
        rollouts = [
            dict(
                group_id=group_id, position=position, text=scored.rollout.text, finish=scored.rollout.finish,
                token_ids=pack_ids(scored.rollout.token_ids), logprobs=pack_floats(scored.rollout.logprobs),
                format_error=scored.format_error,
            )
            for position, scored in enumerate(group.rollouts)
        ]  # fmt: skip
        rollout_ids = self._rollouts.ids(tx.connection, rollouts)
        born = {answer.identity: id for answer, id in zip(fresh, ids, strict=True)}
        seen: set[bytes] = set()
        links = []
        for rollout_id, scored in zip(rollout_ids, group.rollouts, strict=True):
            for position, answer in enumerate(scored.answers):
                first = answer.identity in born and answer.identity not in seen
                seen.add(answer.identity)
                candidate = born.get(answer.identity)
                links.append(
                    dict(
                        rollout_id=rollout_id, position=position, repeat=not first, seconds=answer.seconds,
                        candidate_id=id_of(answer.identity) if candidate is None else candidate,
                    )
                )  # fmt: skip
        if links:
            self._answers.run(tx.connection, links)
        return ids

    def write_candidates(
        self,
        tx: Transaction,
        answers: Sequence[ScoredAnswer],
        measures: Sequence[tuple[float, ...]],
        group_id: int | None,
        sequence: int,
        generation: int,
        island: int,
        parent: int | None,
    ) -> list[int]:
        """One row per answer; their ids in order."""
        now = time.time()
        rows = [
            dict(
                problem_id=self._problem.id, group_id=group_id, sequence=sequence, identity=answer.identity,
                text=answer.text, rewards=[float(r) for r in answer.score.rewards], fitness=float(answer.score.fitness),
                features={name: float(value) for name, value in answer.score.features.items()}, measures=list(measured),
                feedback=answer.score.feedback, error=answer.score.error, generation=generation, island=island,
                parent_id=parent, created=now,
            )
            for answer, measured in zip(answers, measures, strict=True)
        ]  # fmt: skip
        return self._candidates.ids(tx.connection, rows)

    def write_migration(
        self, tx: Transaction, sequence: int, generation: int, moves: Sequence[tuple[int, int, int]]
    ) -> None:
        """A row per copy, or one empty row for a migration that copied nothing."""
        common: dict[str, int | None] = dict(problem_id=self._problem.id, sequence=sequence, generation=generation)
        rows = [dict(common, source=source, target=target, candidate_id=id) for source, target, id in moves]
        self._migrations.run(tx.connection, rows or [dict(common, source=None, target=None, candidate_id=None)])

    def write_cells(self, tx: Transaction, sequence: int, cells: Sequence[tuple[int, str, int | None]]) -> None:
        """(island, cell, candidate id or None for a cell that is empty now)."""
        occupied = [
            dict(problem_id=self._problem.id, island=island, cell=cell, candidate_id=id, sequence=sequence)
            for island, cell, id in cells
            if id is not None
        ]
        if occupied:
            self._elites.run(tx.connection, occupied)
        emptied = [
            dict(of_problem=self._problem.id, of_island=island, of_cell=cell)
            for island, cell, id in cells
            if id is None
        ]
        if emptied:
            self._emptied.run(tx.connection, emptied)

    def write_best(self, tx: Transaction, candidate_id: int, fitness: float) -> None:
        """The problem's best valid candidate, for readers that keep no index."""
        self._best.run(tx.connection, [dict(of_problem=self._problem.id, candidate=candidate_id, reached=fitness)])

    def write_improvements(self, tx: Transaction, steps: Sequence[tuple[int, int, float]]) -> None:
        """(sequence, candidate id, fitness) of groups that raised the best fitness, at most one a group."""
        rows = [
            dict(problem_id=self._problem.id, sequence=sequence, candidate_id=id, fitness=fitness)
            for sequence, id, fitness in steps
        ]
        if rows:
            self._improvements.run(tx.connection, rows)

    def write_operator_count(self, tx: Transaction, count: Counted) -> None:
        """Add a group's answers to those counted."""
        if count.answers:
            row = {name: getattr(count, name) for name in _COUNTED}
            self._counts.run(tx.connection, [dict(row, problem_id=self._problem.id)])

    def write_dimensions(self, tx: Transaction, dimensions: Sequence[str]) -> None:
        """The dimensions of the grid, once they are settled."""
        values = {"dimensions": list(dimensions)}
        tx.connection.execute(update(Problem).where(Problem.c.id == self._problem.id).values(values))
