"""The scorer of a problem's answers, and what follows from a change of it.

After a change all stored answers may be scored again: rewards, measures, archives, the best answer, the sums of the
groups and the group that solved the problem become those of a search in which the same groups had these scores.
Prompts, answers and copies between islands stay.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update

from islands import history
from islands.history import StoredGroup
from islands.population.config import PopulationConfig
from islands.population.memory import Memory
from islands.population.sums import fitness_bin, is_better
from islands.schema import Candidate, Problem, PromptGroup, ScorerChange
from islands.store import Store, Transaction
from islands.types import OF_ROLLOUTS, ProblemRecord
from problems.contract import Score
from problems.scoring import error_kind
from problems.types import ScoredAnswer

_PAGE = 500
_OF_CANDIDATE = ("rewards", "fitness", "features", "measures", "feedback", "error")
_OF_GROUP = ("errors", "best", "best_fitness", "parent_bin", "better", "cells")


@dataclass(frozen=True)
class ScorerChangeRecord:
    """A change between a run and its resume. rescored: whether all stored answers were scored again; before is None
    if the run is older than fingerprints; created: seconds since 1970."""

    problem: str
    before: str | None
    after: str
    rescored: bool
    created: float


def set_fingerprint(problem_id: int, fingerprint: str, tx: Transaction) -> None:
    """Set the fingerprint of a problem's scorer from now on."""
    tx.connection.execute(update(Problem).where(Problem.c.id == problem_id).values(fingerprint=fingerprint))


def record_scorer_change(problem_id: int, before: str | None, after: str, rescored: bool, tx: Transaction) -> None:
    """Put a change on record; the problem has the new fingerprint."""
    set_fingerprint(problem_id, after, tx)
    values = dict(problem_id=problem_id, before=before, after=after, rescored=rescored, created=time.time())
    tx.connection.execute(insert(ScorerChange).values(**values))


def scorer_changes(store: Store, run_id: int) -> list[ScorerChangeRecord]:
    """Every change on record, oldest first."""
    columns = (ScorerChange.c.before, ScorerChange.c.after, ScorerChange.c.rescored, ScorerChange.c.created)
    query = select(Problem.c.name, *columns).join(Problem, Problem.c.id == ScorerChange.c.problem_id)
    rows = store.rows(query.where(Problem.c.run_id == run_id).order_by(ScorerChange.c.id))
    return [ScorerChangeRecord(*row) for row in rows]


def candidate_texts(store: Store, problem_id: int) -> Iterator[list[tuple[int, str]]]:
    """(id, text) of every candidate of a problem, by pages, oldest first."""
    last = -1
    query = select(Candidate.c.id, Candidate.c.text).where(Candidate.c.problem_id == problem_id)
    while page := store.rows(query.where(Candidate.c.id > last).order_by(Candidate.c.id).limit(_PAGE)):
        yield [(id, text) for id, text in page]
        last = page[-1][0]


def rescore(
    store: Store, problem: ProblemRecord, config: PopulationConfig, scores: Mapping[int, Score], tx: Transaction
) -> None:
    """Replace the scores of all candidates (`scores`: by id) and what follows from them, in the caller's transaction;
    problem: with the target that the new scores are compared with.
    Raises ScorerFault if an answer lacks a feature that the grid needs."""
    replay = _Replay(store, problem, config, scores)
    replay.run()
    for table, names, rows in ((Candidate, _OF_CANDIDATE, replay.rows), (PromptGroup, _OF_GROUP, replay.groups)):
        if rows:
            changed = update(table).where(table.c.id == bindparam("of_id"))
            tx.connection.execute(changed.values({name: bindparam(name) for name in names}), rows)
    memory = replay.memory
    best = memory.archipelago.best
    if best is not None and not memory.columns.valid[best]:
        best = None
    status = "solved" if replay.solved is not None else "active" if problem.status == "solved" else problem.status
    values: dict[str, Any] = {
        "best": None if best is None else memory.columns.ids[best],
        "best_fitness": None if best is None else memory.columns.fitness[best],
        "dimensions": None if memory.space.dimensions is None else list(memory.space.dimensions),
        "target": problem.target,
        "solved_sequence": replay.solved,
        "status": status,
    }
    tx.connection.execute(update(Problem).where(Problem.c.id == problem.id).values(values))


class _Replay:
    """The stored groups in memory once more, with other scores.

    rows, groups: of the candidates and groups, for the updates
    solved: the group that reached the target, -1 for a seed
    """

    def __init__(
        self, store: Store, problem: ProblemRecord, config: PopulationConfig, scores: Mapping[int, Score]
    ) -> None:
        self.memory = Memory(config, problem.objectives)
        self.rows: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.sequence = -1
        self.solved: int | None = None
        self._store, self._problem, self._scores = store, problem, scores

    def run(self) -> None:
        for row in history.seeds(self._store, self._problem.id):
            self._append([row])
            self.memory.seed(row.id)
        for group in history.stored_groups(self._store, self._problem.id, -1, None):
            self.sequence = group.sequence
            self._append(list(group.born.values()))
            before = self.memory.archipelago.best
            self.memory.group(group.island, group.parent, group.answers, set(group.born))
            if group.moves is not None:
                self.memory.migrate(group.moves)
            self.groups.append(self._sums(group, before))

    def _sums(self, group: StoredGroup, before: int | None) -> dict[str, Any]:
        """What of a group's row depends on scores. before: the best until then"""
        columns, best = self.memory.columns, self.memory.archipelago.best
        rose = best is not None and best != before and bool(columns.valid[best])
        parent = None if group.parent is None else self._scores[group.parent]
        errors = Counter({kind: n for kind, n in (group.errors or {}).items() if kind in OF_ROLLOUTS})
        errors.update(error_kind(error) for id in group.born if (error := self._scores[id].error))
        cells = [
            [island, cell, None if ordinal is None else columns.ids[ordinal]]
            for island, cell, ordinal in self.memory.archipelago.changed_cells()
        ]
        return dict(
            of_id=group.id,
            errors=dict(errors) or None,
            best=columns.ids[best] if rose and best is not None else None,
            best_fitness=columns.fitness[best] if rose and best is not None else None,
            parent_bin=fitness_bin(parent, self._problem.target),
            better=0 if parent is None else sum(is_better(self._scores[id], parent) for id in group.answers),
            cells=cells or None,
        )

    def _append(self, rows: Sequence[Row[Any]]) -> None:
        """Give the candidates of a group their new scores."""
        if not rows:
            return
        texts = history.texts(self._store, [row.id for row in rows])
        answers = [
            ScoredAnswer(text, bytes(row.identity), self._scores[row.id]) for row, text in zip(rows, texts, strict=True)
        ]
        self.memory.check([answer.score for answer in answers], self._problem.name)
        for row, answer, measures in zip(rows, answers, self.memory.measure(answers), strict=True):
            score, target = answer.score, self._problem.target
            rewards, fitness = tuple(map(float, score.rewards)), float(score.fitness)
            valid = score.error is None
            self.memory.columns.append(row.id, answer.identity, fitness, rewards, measures, row.generation, valid)
            if self.solved is None and target is not None and valid and fitness >= target:
                self.solved = self.sequence
            self.rows.append(
                dict(
                    of_id=row.id, rewards=list(rewards), fitness=fitness, measures=list(measures),
                    features={name: float(value) for name, value in score.features.items()},
                    feedback=score.feedback, error=score.error,
                )
            )  # fmt: skip
