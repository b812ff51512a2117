"""A comparison's searches as arrays in memory, updated from the database by reading only new data.

A large comparison is read run by run, a part in each call, so that a screen shows something at once.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evo.comparison.load import Comparison, SearchArrays, archive_diversity
from evo.comparison.results import drawn_times
from evo.monitor.snapshot import ImprovementLine, PopulationView, ProblemLine
from evo.training.metrics import IN_SEARCH
from islands import runs as live
from islands import training
from islands.browse import vectors
from islands.runs import EliteRecord, elites, read_totals, summed_counts
from islands.store import Store
from islands.types import OperatorCount, RunRecord, Totals

READ_SECONDS = 0.004
"""Seconds of one reading. The next one waits until this is a small share of the time."""
SHARE, FIRST_SHARE = 0.004, 0.01  # FIRST_SHARE: until every archive has been read once
AT_ONCE = 4


class Survey:
    """The archives of each arm's searches, (P, S), as far as they have been read."""

    def __init__(self, problems: int, seeds: Sequence[int]) -> None:
        self._ids = [np.zeros((problems, n), dtype=np.int64) for n in seeds]
        # iterations done when an archive was read
        self._read = [np.full((problems, n), -1, dtype=np.int64) for n in seeds]
        self._due, self._chosen = 0.0, -1
        self._found: list[dict[tuple[int, int], PopulationView]] = [{} for _ in seeds]

    def enrol(self, arm: int, seed: int, ids: Sequence[int]) -> None:
        """Add a run's problems: database ids by index."""
        self._ids[arm][:, seed] = ids

    def read(self, store: Store, done: Sequence[np.ndarray], chosen: int) -> None:
        """Read the most changed archives, for READ_SECONDS. done: (P, S) iterations of each arm."""
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
        """Read all changed archives at once, for a single picture; for at most `seconds`."""
        until = time.monotonic() + seconds
        while (order := self._order(done, chosen)) and time.monotonic() < until:
            self._read_some(store, done, order)

    def _order(self, done: Sequence[np.ndarray], chosen: int) -> list[tuple[int, int, int]]:
        """(arm, row, column) of changed archives, the most changed first; only a part if there are very many."""
        stale = [np.where(ids > 0, now - was, 0) for ids, now, was in zip(self._ids, done, self._read, strict=True)]
        for of in stale:
            of[chosen : chosen + 1] *= 1_000_000
        order = sorted(  # equal changes: problem by problem, so that all arms become known together
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
        """The mean over all archives that were read; None before the first."""
        return _mean(list(self._found[arm].values()))

    def by_problem(self, arm: int, chosen: int) -> dict[int, PopulationView]:
        """The archives of the chosen problem, as means over seeds; empty before it was read."""
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


LOAD_SECONDS = 0.25
"""Seconds in which one call may begin to read unread runs, one at least; a run that was begun is read to its end."""
IMPROVEMENTS_KEPT = 30
TIMES_KEPT = 1_000
"""Evenly spaced iterations for which best fitnesses are kept: more than the dots of a wide terminal."""
STEPS_KEPT = 500
"""Steps of a trainer that are kept; at twice as many, every other one is dropped."""


@dataclass(eq=False)
class RunCache:
    """One run, as far as it has been read."""

    record: RunRecord
    arm: int
    seed: int  # the column of its arm's arrays
    rows: dict[int, int] = field(default_factory=dict)  # problem id -> index
    ids: list[int] = field(default_factory=list)
    last: int = live.BEFORE_SEEDS
    complete: bool = False  # the run had ended when it was last read
    begun: bool = False
    failed: dict[int, str] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)  # multiples of `every`, and the newest
    every: int = 1
    metrics: dict[str, list[float]] = field(default_factory=dict)
    version: str = ""
    counts: list[OperatorCount] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)


class LiveCache:
    """The arrays of a comparison. Not thread-safe; it never writes.

    runs: by id; the caller of `read` updates their records
    problems, arms, survey: empty, empty and None before the first run has its problems
    version: rises with every change of the arrays
    """

    def __init__(self, store: Store, comparison: Comparison) -> None:
        self.store, self.comparison = store, comparison
        self.iterations = comparison.iterations
        self.runs = {
            run.id: RunCache(run, arm, seed)
            for arm, of in enumerate(comparison.arms)
            for seed, run in enumerate(of.runs)
        }
        self.problems: tuple[ProblemLine, ...] = ()
        self.arms: list[SearchArrays] = []
        self.survey: Survey | None = None
        self.version = 0
        self._recent: list[tuple[float, int, ImprovementLine]] = []  # a heap, oldest first
        self._vectors: dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]] = {}

    @property
    def loaded(self) -> int:
        """How many runs have been read completely at least once."""
        return sum(cached.begun for cached in self.runs.values())

    @property
    def failed(self) -> set[int]:
        """Problems, by index, that a fault of their scorer stopped in some run."""
        return {row for cached in self.runs.values() for row in cached.failed}

    def of_arm(self, number: int) -> list[RunCache]:
        """The runs of an arm, by seed."""
        return [cached for cached in self.runs.values() if cached.arm == number]

    def read(self, chosen: int) -> None:
        """Read new data, first the archives of the problem `chosen`. Raises DatabaseUnavailable."""
        until = time.monotonic() + LOAD_SECONDS
        read, begun_one = [], False
        for run_id, cached in self.runs.items():
            # one unread run in each call: on a busy machine the known ones alone may take all of the time
            if cached.complete or (not cached.begun and begun_one and time.monotonic() > until):
                continue
            if not cached.ids and not self._enrolled(run_id, cached):
                cached.begun = cached.record.status != "running"  # a waiting run has nothing to read
                cached.complete = cached.record.status not in ("running", "waiting")
                continue
            ended = cached.record.status not in ("running", "waiting")
            self._read_run(run_id, cached)
            begun_one |= not cached.begun
            cached.begun, cached.complete = True, ended
            read.append(cached)
        if read:
            self._read_events(read)
        if self.survey is not None:
            self.survey.read(self.store, [arm.done for arm in self.arms], chosen)
        self._read_vectors()

    def read_archives(self, chosen: int, seconds: float) -> None:
        """Read all changed archives at once, first those of the problem `chosen`; for at most `seconds`."""
        if self.survey is not None:
            self.survey.read_all(self.store, [arm.done for arm in self.arms], chosen, seconds)

    def _enrolled(self, run_id: int, cached: RunCache) -> bool:
        """Whether the run has its problems; all of them are stored at once."""
        problems = self.store.problems(run_id)
        if not problems:
            return False
        if not self.problems:
            self.problems = tuple(ProblemLine(p.name, p.target, p.objectives) for p in problems)
            targets = [problem.target for problem in self.problems]
            cost = math.lcm(*(arm.answers for arm in self.comparison.arms))
            self.arms = [
                SearchArrays.empty(
                    targets, len(arm.runs), drawn_times(self.iterations, TIMES_KEPT, cost // arm.answers)
                )
                for arm in self.comparison.arms
            ]
            self.survey = Survey(len(targets), [len(arm.runs) for arm in self.comparison.arms])
        cached.ids = [problem.id for problem in problems[: len(self.problems)]]
        cached.rows = {id: row for row, id in enumerate(cached.ids)}
        assert self.survey is not None
        self.survey.enrol(cached.arm, cached.seed, cached.ids)
        return True

    def _read_run(self, run_id: int, cached: RunCache) -> None:
        arm, column = self.arms[cached.arm], cached.seed
        with self.store.read() as connection:
            upto = live.newest_sequence(connection, run_id)
            # read the seeds each time before the first group: they may be stored after the problems
            if upto > cached.last or upto < 0:
                course = live.course_between(connection, run_id, cached.last, upto)
                for row, rise, before in arm.add(column, cached.rows, course):
                    self._remember(cached, row, rise, before)
                cached.counts = summed_counts(connection, run_id)
                cached.totals = read_totals(connection, [run_id])[run_id]
                cached.last = upto if upto >= 0 else live.BEFORE_SEEDS
                self.version += 1

    def _read_events(self, runs: Sequence[RunCache]) -> None:
        """Read rare events: problems that a scorer's fault stopped, and steps of a trainer."""
        ids = [cached.record.id for cached in runs]
        with self.store.read() as connection:
            failed = list(live.failed_problems(connection, ids))
            trained = training.newest_training(connection, ids)
        for cached in runs:
            cached.failed = {
                cached.rows[problem]: message
                for run, problem, message in failed
                if run == cached.record.id and problem in cached.rows
            }
            self._read_training(cached, trained.get(cached.record.id, -1))

    def _read_training(self, cached: RunCache, newest: int) -> None:
        """Read the steps since the last call. Long trainings are thinned; the newest step is always kept."""
        last = cached.steps[-1] if cached.steps else -1
        if newest <= last:
            return
        every = cached.every
        while newest // every > 2 * STEPS_KEPT:
            every *= 2
        kept = [at for at, step in enumerate(cached.steps) if step % every == 0]
        cached.every, cached.steps = every, [cached.steps[at] for at in kept]
        cached.metrics = {name: [values[at] for at in kept] for name, values in cached.metrics.items()}
        run_id = cached.record.id
        with self.store.read() as connection:
            found = list(training.training_between(connection, run_id, last, newest, every))
            cached.version = training.newest_version(connection, run_id)
        for step, stats in found:
            cached.steps.append(step)
            for name in IN_SEARCH:
                value = stats.get(name)
                known = isinstance(value, int | float) and not isinstance(value, bool)
                cached.metrics.setdefault(name, []).append(float(value) if known else float("nan"))  # type: ignore[arg-type]

    def _remember(self, cached: RunCache, row: int, step: live.Improvement, before: float) -> None:
        if step.created is None:
            return
        line = ImprovementLine(
            self.comparison.arms[cached.arm].name,
            cached.record.seed,
            row,
            step.iteration + 1,
            step.candidate,
            step.fitness,
            None if math.isnan(before) else before,
            step.created,
        )
        heapq.heappush(self._recent, (step.created, step.candidate, line))
        if len(self._recent) > IMPROVEMENTS_KEPT:
            heapq.heappop(self._recent)

    def _read_vectors(self) -> None:
        shown = [candidate for _, candidate, _ in self._recent]
        self._vectors = {id: found for id, found in self._vectors.items() if id in set(shown)}
        missing = [id for id in shown if id not in self._vectors]
        if missing:
            self._vectors.update(vectors(self.store, missing))

    def improvements(self) -> tuple[ImprovementLine, ...]:
        """The newest rises of best fitnesses, the last first."""
        lines = []
        for _, candidate, line in sorted(self._recent, key=lambda one: one[:2], reverse=True):
            own, parent = self._vectors.get(candidate, ((), None))
            change = None if parent is None else tuple(a - b for a, b in zip(own, parent, strict=False))
            lines.append(replace(line, rewards=own, change=change))
        return tuple(lines)
