"""Archives read a few at a time: a comparison has thousands of them, and a screen must not cost more than a search
can spare. The problem that the viewer looks at comes first, then whichever archive has changed most since it was read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from evo.comparison.load import archive_diversity
from evo.monitor.snapshot import PopulationView
from islands.db.store import Store
from islands.queries.runs import EliteRecord, elites

READ_SECONDS = 0.004
"""Of one reading; the next one waits until that was a small share of the time."""
SHARE, FIRST_SHARE = 0.004, 0.01  # until every archive has been read once
AT_ONCE = 4


class Survey:
    """What is known of the archives of each arm's searches, (P, S)."""

    def __init__(self, problems: int, seeds: Sequence[int]) -> None:
        self._ids = [np.zeros((problems, n), dtype=np.int64) for n in seeds]
        self._read = [np.full((problems, n), -1, dtype=np.int64) for n in seeds]  # iterations done when it was read
        self._due, self._chosen = 0.0, -1
        self._found: list[dict[tuple[int, int], PopulationView]] = [{} for _ in seeds]

    def enrol(self, arm: int, seed: int, ids: Sequence[int]) -> None:
        """A run's problems, by index, as the database numbers them."""
        self._ids[arm][:, seed] = ids

    def read(self, store: Store, done: Sequence[np.ndarray], chosen: int) -> None:
        """Read what has changed most, for READ_SECONDS; done: (P, S) for each arm."""
        began = time.thread_time()
        if time.monotonic() < self._due and chosen == self._chosen:
            return
        self._chosen = chosen
        unread = any((was < 0).any() for was in self._read)
        order = self._order(done, chosen)
        for start in range(0, len(order), AT_ONCE):
            self._read_some(store, done, order[start : start + AT_ONCE])
            if time.thread_time() - began > READ_SECONDS:
                break
        self._due = time.monotonic() + (time.thread_time() - began) / (FIRST_SHARE if unread else SHARE)

    def read_all(self, store: Store, done: Sequence[np.ndarray], chosen: int, seconds: float) -> None:
        """Read whatever has changed at once, for a picture that is made only once; no longer than `seconds`."""
        until = time.monotonic() + seconds
        while (order := self._order(done, chosen)) and time.monotonic() < until:
            self._read_some(store, done, order)

    def _order(self, done: Sequence[np.ndarray], chosen: int) -> list[tuple[int, int, int]]:
        """(arm, row, column) of archives that have changed, what has changed most first; not all of very many."""
        stale = [np.where(ids > 0, now - was, 0) for ids, now, was in zip(self._ids, done, self._read, strict=True)]
        for of in stale:
            of[chosen : chosen + 1] *= 1_000_000
        order = sorted(  # alike in change: problem by problem, so that all arms come to be known together
            (-int(of[row, column]), int(row), int(column), arm)
            for arm, of in enumerate(stale)
            for row, column in zip(*_largest(of), strict=True)
        )
        return [(arm, row, column) for _, row, column, arm in order]

    def _read_some(self, store: Store, done: Sequence[np.ndarray], places: Sequence[tuple[int, int, int]]) -> None:
        at = {int(self._ids[arm][row, column]): (arm, row, column) for arm, row, column in places}
        archives: dict[int, list[EliteRecord]] = {id: [] for id in at}
        for elite in elites(store, list(at)):
            archives[elite.problem].append(elite)
        for id, (arm, row, column) in at.items():
            filled = np.bincount([elite.island for elite in archives[id]]).astype(float)
            self._found[arm][row, column] = PopulationView(tuple(filled.tolist()), archive_diversity(archives[id]))
            self._read[arm][row, column] = done[arm][row, column]

    def read_of(self, arm: int) -> int:
        """How many of the arm's archives have been read."""
        return len(self._found[arm])

    def mean(self, arm: int) -> PopulationView | None:
        """Over everything that was read; None before the first."""
        return _mean(list(self._found[arm].values()))

    def by_problem(self, arm: int, chosen: int) -> dict[int, PopulationView]:
        """The chosen problem's, the mean over seeds; empty before it was read."""
        columns = range(self._ids[arm].shape[1])
        of = _mean([found for seed in columns if (found := self._found[arm].get((chosen, seed))) is not None])
        return {} if of is None else {chosen: of}


def _largest(stale: np.ndarray, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the `count` largest values above 0."""
    flat = stale.ravel()
    order = np.argpartition(flat, -count)[-count:] if len(flat) > count else np.arange(len(flat))
    return np.unravel_index(order[flat[order] > 0], stale.shape)  # type: ignore[return-value]


def _mean(found: Sequence[PopulationView]) -> PopulationView | None:
    if not found:
        return None
    islands = max(len(one.cells) for one in found)
    cells = np.zeros((len(found), islands))
    for row, one in enumerate(found):
        cells[row, : len(one.cells)] = one.cells
    return PopulationView(tuple(cells.mean(axis=0).tolist()), float(np.mean([one.diversity for one in found])))
