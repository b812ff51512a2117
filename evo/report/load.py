"""Load a run's answers and candidates as arrays, without their texts: a page shows only a few dozen texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evo.evaluation.evaluate import format_kinds
from islands.groups import (
    AnswerColumns,
    CandidateColumns,
    IterationCosts,
    answer_columns,
    candidate_columns,
    iteration_costs,
    policy_versions,
)
from islands.runs import EliteRecord, elites, format_errors, run_totals
from islands.store import Store
from islands.training import TrainingStepRecord, training_steps
from islands.types import ProblemRecord, RunRecord, Totals

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SearchReading:
    """One search: its C candidates in the order in which they were stored, and its N answers in the order in which the
    policy gave them.

    ids: (C,) rising; parents: (C,) ids, -1 for none; born: (C,) iteration from 0, -1 for a seed
    fitness: (C,); valid: (C,) True without an error; rewards: (C, d)
    answered: (N,) the ordinal of each answer's candidate; at: (N,) iteration from 0
    version: (N,) database id of the policy's version
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
    cells: tuple[EliteRecord, ...] = ()

    def ordinal(self, candidate: int) -> int | None:
        """The place of a candidate in these columns; None if another search has it."""
        place = int(np.searchsorted(self.ids, candidate))
        return place if place < len(self.ids) and self.ids[place] == candidate else None

    def line(self, candidate: int) -> list[int]:
        """Ordinals from the first ancestor to the candidate."""
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

    costs: of each iteration; totals: of everything that is committed; misread: rollouts by the kind of their error
    versions: database id -> name of each policy version, oldest first
    """

    run: RunRecord
    searches: tuple[SearchReading, ...]
    costs: IterationCosts | None = None
    totals: Totals = field(default_factory=Totals)
    misread: Counter[str] = field(default_factory=Counter)
    versions: dict[int, str] = field(default_factory=dict)
    steps: tuple[TrainingStepRecord, ...] = ()


def read_run(store: Store, run: RunRecord) -> RunReading:
    """All data of a run that the page needs, except texts."""
    problems = store.problems(run.id)
    if not problems:
        return RunReading(run, ())
    totals = run_totals(store, run.id)
    # candidates are read last: the run may be writing, and every candidate that is referred to must be there
    answers = answer_columns(store, run.id)
    cells: dict[int, list[EliteRecord]] = {}
    for elite in elites(store, [problem.id for problem in problems]):
        cells.setdefault(elite.problem, []).append(elite)
    candidates = candidate_columns(store, run.id)
    stored, given, none = _of_problems(candidates.problem), _of_problems(answers.problem), np.zeros(0, np.int64)
    misread: Counter[str] = Counter()
    for error, count in format_errors(store, run.id).items():
        for kind in format_kinds(error):
            misread[kind] += count
    return RunReading(
        run,
        tuple(
            _search(
                problem,
                candidates,
                stored.get(problem.id, none),
                answers,
                given.get(problem.id, none),
                cells.get(problem.id, ()),
            )
            for problem in problems
        ),
        costs=iteration_costs(store, run.id),
        totals=totals,
        misread=misread,
        versions=policy_versions(store, run.id),
        steps=tuple(training_steps(store, run.id)),
    )


def _of_problems(problem: Ints) -> dict[int, Ints]:
    """Problem id -> the places of its rows in a column, in their order."""
    by_problem = np.argsort(problem, kind="stable")
    edges = np.flatnonzero(np.diff(problem[by_problem])) + 1
    return {int(problem[rows[0]]): rows for rows in np.split(by_problem, edges) if len(rows)}


def _search(
    problem: ProblemRecord,
    candidates: CandidateColumns,
    stored: Ints,
    answers: AnswerColumns,
    given: Ints,
    cells: Sequence[EliteRecord],
) -> SearchReading:
    """stored, given: the places of this problem's candidates and answers"""
    ids = candidates.id[stored]
    return SearchReading(
        problem,
        ids=ids,
        parents=candidates.parent[stored],
        born=candidates.iteration[stored],
        fitness=candidates.fitness[stored],
        valid=candidates.valid[stored],
        rewards=candidates.values[candidates.starts[stored][:, None] + np.arange(len(problem.objectives))],
        answered=np.searchsorted(ids, answers.candidate[given]),
        at=answers.iteration[given],
        version=answers.version[given],
        cells=tuple(cells),
    )
