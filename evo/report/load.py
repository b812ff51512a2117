"""A run's answers and candidates as arrays, by a handful of queries whatever the number of problems.

Texts stay in the database: a page shows a few dozen of them, and a search has written gigabytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import Text, cast, func, select

from evo.evaluation.evaluate import format_kinds
from evo.search.status import error_kind
from islands.db.schema import Answer, Candidate, Elite, Migration, PolicyVersion, Problem, PromptGroup, Rollout
from islands.db.store import Store
from islands.queries.progress import run_progress
from islands.queries.runs import TrainingStepRecord, format_errors, training_steps
from islands.types import ProblemRecord, RunRecord

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BATCH = 20_000
ERROR_HEAD = 120
"""Characters of an answer's error that are read; its kind is in the first few words."""


@dataclass(frozen=True, eq=False)
class Cell:
    """An occupied cell of an island's archive."""

    island: int
    name: str
    candidate: int


@dataclass(frozen=True, eq=False)
class SearchReading:
    """One search: its C candidates in the order of storing, and its N answers in the order of giving.

    ids: (C,) rising; parents: (C,) ids, -1 for none; born: (C,) iteration from 0, -1 for a seed
    fitness: (C,); valid: (C,) without an error of its own; rewards: (C, d)
    answered: (N,) which candidate, by ordinal; at: (N,) iteration from 0; version: (N,) database id of the policy's
    """

    problem: ProblemRecord
    ids: Ints
    parents: Ints
    born: Ints
    fitness: Floats
    valid: Bools
    rewards: Floats
    answered: Ints
    at: Ints
    version: Ints
    cells: tuple[Cell, ...] = ()

    def ordinal(self, candidate: int) -> int | None:
        """Where a candidate's id stands; None where it is not of this search."""
        place = int(np.searchsorted(self.ids, candidate))
        return place if place < len(self.ids) and self.ids[place] == candidate else None

    def line(self, candidate: int) -> list[int]:
        """Ordinals from the first ancestor down to the candidate itself."""
        line: list[int] = []
        at = self.ordinal(candidate)
        while at is not None and at not in line[-1:]:
            line.append(at)
            at = self.ordinal(int(self.parents[at])) if self.parents[at] >= 0 else None
            if at is not None and at >= line[-1]:
                break  # a parent is older than its child; anything else is no lineage
        return line[::-1]


@dataclass(frozen=True, eq=False)
class RunReading:
    """One run. searches: by problem, in the comparison's order; empty while the run waits for its turn.

    groups, answers, tokens: committed; repeats: answers that were stored before; migrations: copies between islands
    scoring_seconds: summed over workers; failed, misread: answers and rollouts by the kind of their error
    versions: database id -> name of each policy version, oldest first
    """

    run: RunRecord
    searches: tuple[SearchReading, ...]
    groups: int = 0
    answers: int = 0
    tokens: int = 0
    repeats: int = 0
    migrations: int = 0
    sampling_seconds: float = 0.0
    scoring_seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    misread: Counter[str] = field(default_factory=Counter)
    versions: dict[int, str] = field(default_factory=dict)
    steps: tuple[TrainingStepRecord, ...] = ()


def read_run(store: Store, run: RunRecord) -> RunReading:
    """Everything of a run that the page needs but its texts."""
    problems = store.problems(run.id)
    if not problems:
        return RunReading(run, ())
    progress = run_progress(store, run.id)
    # what points at candidates comes before them, so that all of these are there although the run may be writing
    answers_read = _columns(store, _answers(run.id), 6)
    answers = _split(answers_read, problems)
    cells = _cells(store, run.id)
    candidates = _split(_columns(store, _candidates(run.id), 7), problems)
    with store.read() as connection:
        sampling = connection.execute(
            select(func.coalesce(func.sum(PromptGroup.sampling_seconds), 0.0)).where(PromptGroup.run_id == run.id)
        ).scalar_one()
        copies = connection.execute(
            select(func.count())
            .select_from(Migration)
            .join(Problem, Problem.id == Migration.problem_id)
            .where(Problem.run_id == run.id, Migration.candidate_id.is_not(None))
        ).scalar_one()
        head = func.substr(cast(Candidate.error, Text), 1, ERROR_HEAD).label("head")
        errors = connection.execute(
            select(head, func.count())
            .join(Problem, Problem.id == Candidate.problem_id)
            .where(Problem.run_id == run.id, Candidate.error.is_not(None), Candidate.group_id.is_not(None))
            .group_by("head")
        ).all()
        versions = connection.execute(
            select(PolicyVersion.id, PolicyVersion.version)
            .where(PolicyVersion.run_id == run.id)
            .order_by(PolicyVersion.id)
        ).all()
    failed: Counter[str] = Counter()
    for error, count in errors:
        failed[error_kind(str(error))] += count
    misread: Counter[str] = Counter()
    for error, count in format_errors(store, run.id).items():
        for kind in format_kinds(error):
            misread[kind] += count
    return RunReading(
        run,
        tuple(
            _search(problem, candidates[problem.id], answers[problem.id], cells.get(problem.id, ()))
            for problem in problems
        ),
        groups=progress.groups,
        answers=progress.answers,
        tokens=progress.tokens,
        repeats=sum(answers_read[4]),
        migrations=int(copies),
        sampling_seconds=float(sampling),
        scoring_seconds=float(np.sum(answers_read[5])) if answers_read[5] else 0.0,
        failed=failed,
        misread=misread,
        versions={int(id): str(version) for id, version in versions},
        steps=tuple(training_steps(store, run.id)),
    )


def _candidates(run_id: int) -> Any:
    """problem, id, parent, iteration, fitness, whether it has no error, rewards as text: a row each would be decoded
    by itself, a batch's texts are decoded together."""
    return (
        select(
            Candidate.problem_id,
            Candidate.id,
            func.coalesce(Candidate.parent_id, -1),
            func.coalesce(PromptGroup.iteration, -1),
            Candidate.fitness,
            Candidate.error.is_(None),
            cast(Candidate.rewards, Text),
        )
        .join(Problem, Problem.id == Candidate.problem_id)
        .outerjoin(PromptGroup, PromptGroup.id == Candidate.group_id)
        .where(Problem.run_id == run_id)
        .order_by(Candidate.id)
    )


def _answers(run_id: int) -> Any:
    """problem, candidate, iteration, policy version, whether it is a repeat, seconds of scoring."""
    return (
        select(
            PromptGroup.problem_id,
            Answer.candidate_id,
            PromptGroup.iteration,
            PromptGroup.policy_version_id,
            Answer.repeat,
            Answer.seconds,
        )
        .join(Rollout, Rollout.group_id == PromptGroup.id)
        .join(Answer, Answer.rollout_id == Rollout.id)
        .where(PromptGroup.run_id == run_id)
        .order_by(PromptGroup.sequence, Rollout.position, Answer.position)
    )


Columns = list[list[Any]]


def _columns(store: Store, query: Any, width: int) -> Columns:
    """The query's columns, read in batches so that the rows of a long run do not stand in memory beside them."""
    columns: Columns = [[] for _ in range(width)]
    for batch in _batches(store, query):
        for column, values in zip(columns, zip(*batch, strict=True), strict=True):
            column.extend(values)
    return columns


def _batches(store: Store, query: Any) -> Iterator[Sequence[Any]]:
    with store.read() as connection:
        yield from connection.execute(query).partitions(BATCH)


def _split(columns: Columns, problems: Sequence[ProblemRecord]) -> dict[int, Columns]:
    """Rows by problem, each in the order in which they came."""
    of_problem: dict[int, Columns] = {problem.id: [[] for _ in columns[1:]] for problem in problems}
    order = np.array(columns[0], dtype=np.int64)
    by_problem = np.argsort(order, kind="stable")
    edges = np.flatnonzero(np.diff(order[by_problem])) + 1
    for rows in np.split(by_problem, edges):
        if len(rows):
            of_problem[int(order[rows[0]])] = [[column[row] for row in rows] for column in columns[1:]]
    return of_problem


def _search(problem: ProblemRecord, candidates: Columns, answers: Columns, cells: Sequence[Cell]) -> SearchReading:
    ids = np.array(candidates[0], dtype=np.int64)
    rewards = np.array(json.loads(f"[{','.join(candidates[5])}]"), dtype=np.float64)
    return SearchReading(
        problem,
        ids=ids,
        parents=np.array(candidates[1], dtype=np.int64),
        born=np.array(candidates[2], dtype=np.int64),
        fitness=np.array(candidates[3], dtype=np.float64),
        valid=np.array(candidates[4], dtype=bool),
        rewards=rewards.reshape(len(ids), len(problem.objectives)),
        answered=np.searchsorted(ids, np.array(answers[0], dtype=np.int64)),
        at=np.array(answers[1], dtype=np.int64),
        version=np.array(answers[2], dtype=np.int64),
        cells=tuple(cells),
    )


def _cells(store: Store, run_id: int) -> dict[int, list[Cell]]:
    """Problem id -> what its islands' archives hold."""
    query = (
        select(Elite.problem_id, Elite.island, Elite.cell, Elite.candidate_id)
        .join(Problem, Problem.id == Elite.problem_id)
        .where(Problem.run_id == run_id)
        .order_by(Elite.problem_id, Elite.island, Elite.cell)
    )
    cells: dict[int, list[Cell]] = {}
    for batch in _batches(store, query):
        for problem, island, name, candidate in batch:
            cells.setdefault(problem, []).append(Cell(island, name, candidate))
    return cells
