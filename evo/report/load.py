"""A run's answers and candidates as arrays, without their texts: a page shows a few dozen of those."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evo.evaluation.evaluate import format_kinds
from evo.search.status import count_kinds
from islands.db.store import Store
from islands.queries.progress import run_progress
from islands.queries.report import (
    Columns,
    answer_columns,
    candidate_columns,
    error_heads,
    migrated_copies,
    occupied_cells,
    policy_versions,
    sampling_seconds,
)
from islands.queries.runs import format_errors
from islands.queries.training import TrainingStepRecord, training_steps
from islands.types import ProblemRecord, RunRecord

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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
    columns = answer_columns(store, run.id)
    answers = _split(columns, problems)
    cells: dict[int, list[Cell]] = {}
    for problem_id, island, name, candidate in occupied_cells(store, run.id):
        cells.setdefault(problem_id, []).append(Cell(island, name, candidate))
    candidates = _split(candidate_columns(store, run.id), problems)
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
        repeats=sum(columns[4]),
        migrations=migrated_copies(store, run.id),
        sampling_seconds=sampling_seconds(store, run.id),
        scoring_seconds=float(np.sum(columns[5])) if columns[5] else 0.0,
        failed=count_kinds(error_heads(store, run.id)),
        misread=misread,
        versions=policy_versions(store, run.id),
        steps=tuple(training_steps(store, run.id)),
    )


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
