"""Archives that training begins with: what a stored search had found of a problem at some moment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evo.config.traces import run_and_address
from evo.config.train import TrainRun
from evo.errors import BadInput
from evo.training.curriculum import FRONT, front
from islands.db.comparisons import runs_named
from islands.db.store import Store
from islands.queries.candidates import CandidateReader
from islands.queries.children import Child, children
from islands.types import Candidate
from problems.contract import Problem

MOST = 48
"""Candidates of an archive: the front's fittest, then others of as many reward vectors."""
CACHE_BYTES = 8 << 20


class StoredArchives:
    """The archives of a run's problems, each as it was after a random share of what the run has stored of it.

    problems: that are learned from; the run has to hold all of them. Raises BadInput where it does not
    level: share of its target that a problem's archive has reached at that moment, if the run ever has; 0 = any moment
    """

    def __init__(self, store: Store, run: str, problems: Sequence[Problem], *, level: float = 0.0) -> None:
        self._store, self._problems, self._level = store, problems, level
        self._reader = CandidateReader(store, CACHE_BYTES)
        self._ended: dict[int, list[tuple[tuple[float, ...], float]]] = {}
        self._ids = {record.name: record.id for one in runs_named(store, run) for record in store.problems(one.id)}
        lost = [problem.name for problem in problems if problem.name not in self._ids]
        if lost:
            raise BadInput(f"run {run} has not searched {lost[0]}; learn from problems of its own")

    def __call__(self, problem: int, rng: np.random.Generator) -> list[Candidate]:
        """The archive of the problem at this place, of a moment that `rng` decides; without what solves it."""
        target = self._problems[problem].target
        rows = [
            row
            for row in children(self._store, self._ids[self._problems[problem].name])
            if not row.failed and (target is None or row.fitness < target)
        ]
        rows = rows[: int(rng.integers(self._first_moment(rows, target), len(rows) + 1))] if rows else []
        newest = list({row.rewards: row for row in rows}.values())
        if not newest:
            return []
        chosen = self._choose(newest, rng)
        return self._reader.fetch(sorted(row.id for row in chosen))

    def ended(self, problem: int) -> list[tuple[tuple[float, ...], float]]:
        """The distinct (rewards, fitness) that the run ended with on the problem at this place."""
        if problem not in self._ended:
            rows = children(self._store, self._ids[self._problems[problem].name])
            self._ended[problem] = list(
                {row.rewards: (row.rewards, row.fitness) for row in rows if not row.failed}.values()
            )
        return self._ended[problem]

    def _first_moment(self, rows: Sequence[Child], target: float | None) -> int:
        """How many of the rows an archive has at least; all of them where none of the rows is at the level."""
        if self._level == 0.0 or target is None or target <= 0.0:
            return 1
        return next((i for i, row in enumerate(rows, 1) if row.fitness >= self._level * target), len(rows))

    def _choose(self, rows: list[Child], rng: np.random.Generator) -> list[Child]:
        best = front(np.array([row.rewards for row in rows]), [row.fitness for row in rows], FRONT)
        others = [i for i in range(len(rows)) if i not in best]
        rest = rng.permutation(len(others))[: MOST - len(best)]
        return [rows[i] for i in (*best, *(others[int(j)] for j in rest))]

    def close(self) -> None:
        self._store.close()


def open_stored_archives(run: TrainRun, problems: Sequence[Problem]) -> StoredArchives | None:
    """Those that `run` names, read-only; None where it names none. Raises BadInput, UnknownRun, DatabaseUnavailable."""
    if run.archive_run is None:
        return None
    name, address = run_and_address(run.archive_run, run.db)
    store = Store.open(address, read_only=True)
    try:
        return StoredArchives(store, name, problems, level=run.parent_level)
    except BaseException:
        store.close()
        raise
