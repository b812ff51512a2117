"""New scores for the stored answers of a problem: everything that follows from scores is recomputed from the stored
groups.

Prompts and answers stay as they are. Rewards, measures, the archives, the best answer and the group that solved the
problem become those of a search in which the same groups had these scores; copies between islands stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, bindparam, delete, update

from islands.db.schema import Candidate, Elite, Improvement, Problem
from islands.db.store import Store
from islands.db.totals import recount_errors
from islands.db.transaction import Transaction
from islands.db.writer import GroupWriter
from islands.population.config import PopulationConfig
from islands.population.memory import Memory
from islands.population.operator_counts import recount
from islands.queries import history
from islands.types import ProblemRecord
from problems.contract import Score
from problems.types import ScoredAnswer

_PAGE = 500
_CANDIDATE = (
    update(Candidate)
    .where(Candidate.c.id == bindparam("of_candidate"))
    .values({name: bindparam(name) for name in ("rewards", "fitness", "features", "measures", "feedback", "error")})
)


def candidate_texts(store: Store, problem_id: int) -> Iterator[list[tuple[int, str]]]:
    """(id, text) of every candidate of a problem, by pages, oldest first."""
    last = -1
    while page := history.texts_after(store, problem_id, last, _PAGE):
        yield page
        last = page[-1][0]


def rescore(
    store: Store, problem: ProblemRecord, config: PopulationConfig, scores: Mapping[int, Score], tx: Transaction
) -> None:
    """Replace the scores of all candidates (`scores`: by id) and what follows from them, in the caller's transaction;
    problem: with the target that the new scores are compared with.
    Raises ScorerFault if an answer lacks a feature that the grid needs."""
    replay = _Replay(store, problem, config, scores)
    replay.run()
    connection = tx.connection
    if replay.rows:
        connection.execute(_CANDIDATE, replay.rows)
    for kept in (Elite, Improvement):
        connection.execute(delete(kept).where(kept.c.problem_id == problem.id))
    recount(connection, problem, compare=True)
    recount_errors(store, problem.id, tx)
    memory, ids = replay.memory, replay.memory.columns.ids
    writer = GroupWriter(store, problem)
    for sequence, cells in replay.elites().items():
        writer.write_cells(tx, sequence, cells)
    if replay.rises:
        writer.write_improvements(tx, replay.rises)
    best = memory.archipelago.best
    has_best = best is not None and memory.columns.valid[best]
    status = "solved" if replay.solved is not None else "active" if problem.status == "solved" else problem.status
    values: dict[str, Any] = {
        "best": ids[best] if has_best and best is not None else None,
        "best_fitness": memory.columns.fitness[best] if has_best and best is not None else None,
        "dimensions": None if memory.space.dimensions is None else list(memory.space.dimensions),
        "target": problem.target,
        "solved_sequence": replay.solved,
        "status": status,
    }
    connection.execute(update(Problem).where(Problem.c.id == problem.id).values(values))


class _Replay:
    """The stored groups in memory once more, with other scores.

    rows: of the candidates, for the update; solved: the group that reached the target, -1 for a seed
    """

    def __init__(
        self, store: Store, problem: ProblemRecord, config: PopulationConfig, scores: Mapping[int, Score]
    ) -> None:
        self.memory = Memory(config, problem.objectives)
        self.rows: list[dict[str, Any]] = []
        self.rises: list[tuple[int, int, float]] = []  # (sequence, candidate id, fitness) of each new best
        self.sequence = -1
        self.solved: int | None = None
        self._cells: dict[tuple[int, str], tuple[int, int]] = {}  # (island, cell) -> (ordinal, since which group)
        self._store, self._problem, self._scores = store, problem, scores

    def run(self) -> None:
        for row in history.seeds(self._store, self._problem.id):
            self._append([row])
            self.memory.seed(row.id)
            self._note()
        for group in history.History(self._store, self._problem.id).take(-1, None):
            self.sequence = group.sequence
            self._append(list(group.born.values()))
            self.memory.group(group.island, group.parent, group.answers, set(group.born))
            if group.moves is not None:
                self.memory.migrate(group.moves)
            self._note()

    def elites(self) -> dict[int, list[tuple[int, str, int | None]]]:
        """(island, cell, candidate id) of the occupied cells, by the group that gave them their occupant."""
        occupied: dict[int, list[tuple[int, str, int | None]]] = {}
        for (island, cell), (ordinal, sequence) in self._cells.items():
            occupied.setdefault(sequence, []).append((island, cell, self.memory.columns.ids[ordinal]))
        return occupied

    def _note(self) -> None:
        for island, cell, ordinal in self.memory.archipelago.changed_cells():
            if ordinal is None:
                self._cells.pop((island, cell), None)
            else:
                self._cells[island, cell] = (ordinal, self.sequence)
        best, columns = self.memory.archipelago.best, self.memory.columns
        if best is not None and columns.valid[best]:
            rise = (self.sequence, columns.ids[best], columns.fitness[best])
            if not self.rises or rise[2] > self.rises[-1][2]:
                self.rises = [earlier for earlier in self.rises if earlier[0] < rise[0]] + [rise]

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
                    of_candidate=row.id, rewards=list(rewards), fitness=fitness, measures=list(measures),
                    features={name: float(value) for name, value in score.features.items()},
                    feedback=score.feedback, error=score.error,
                )
            )  # fmt: skip
