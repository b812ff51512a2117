"""A comparison's searches as arrays in memory, kept up with the database by reading only what is new.

A large comparison is read run by run, a part of it per call, so that a screen opened on it shows something at once.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evo.comparison.load import Comparison
from evo.comparison.results import drawn_times
from evo.monitor.archive_survey import Survey
from evo.monitor.snapshot import ImprovementLine, ProblemLine
from islands.db.store import Store
from islands.queries import live as readings
from islands.types import RunRecord

LOAD_SECONDS = 0.25
"""How long one call may read runs that were not read before; a run once begun is read to its end."""
IMPROVEMENTS_KEPT = 30
TIMES_KEPT = 1_000
"""Iterations, evenly spread, after which best fitnesses are kept: more than the dots of a wide terminal."""
STEPS_KEPT = 500
"""Of a trainer; from twice as many on, every other one is left out."""
TRAINING_FIGURES = ("loss", "kl", "fitness", "best_of_rollout", "reward", "nll", "clipped", "grad_norm")


@dataclass(eq=False)
class RunReading:
    """One run as far as it has been read."""

    record: RunRecord
    arm: int
    seed: int  # the column of its arm's arrays
    rows: dict[int, int] = field(default_factory=dict)  # problem id -> index
    ids: list[int] = field(default_factory=list)
    last: int = readings.BEFORE_SEEDS
    complete: bool = False  # it had ended when it was last read
    begun: bool = False
    failed: dict[int, str] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)  # a multiple of `every` each, and the newest
    every: int = 1
    figures: dict[str, list[float]] = field(default_factory=dict)
    version: str = ""


@dataclass(eq=False)
class ArmReading:
    """One arm's searches as arrays, (P, S) and (P, S, K), written in place."""

    times: np.ndarray  # (K,) iterations that `best` is kept after
    done: np.ndarray
    solved_at: np.ndarray
    best: np.ndarray
    now: np.ndarray  # (P, S) best fitness so far, NaN before any

    @classmethod
    def of(cls, targets: Sequence[bool], seeds: int, times: np.ndarray) -> ArmReading:
        shape = (len(targets), seeds)
        solved_at = np.where(np.array(targets)[:, None], np.inf, np.nan) * np.ones(shape)
        empty = np.full((*shape, len(times)), np.nan)
        return cls(times, np.zeros(shape, dtype=np.int64), solved_at, empty, np.full(shape, np.nan))


class Mirror:
    """Not for several threads at once; never writes.

    runs: by id; records are brought up to date by whoever calls `read`
    problems, arms, survey: empty, empty and None before the first run has its problems
    version: rises with every change of the arrays
    """

    def __init__(self, store: Store, comparison: Comparison) -> None:
        self.store, self.comparison = store, comparison
        self.iterations = comparison.iterations
        self.runs = {
            run.id: RunReading(run, arm, seed)
            for arm, of in enumerate(comparison.arms)
            for seed, run in enumerate(of.runs)
        }
        self.problems: tuple[ProblemLine, ...] = ()
        self.arms: list[ArmReading] = []
        self.survey: Survey | None = None
        self.version = 0
        self._recent: list[tuple[float, int, ImprovementLine]] = []  # a heap, oldest first
        self._vectors: dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]] = {}

    @property
    def loaded(self) -> int:
        """Runs that have been read to where they were at some time."""
        return sum(reading.begun for reading in self.runs.values())

    @property
    def failed(self) -> set[int]:
        """Problems, by index, that a fault of their scorer stopped in some run."""
        return {row for reading in self.runs.values() for row in reading.failed}

    def of_arm(self, number: int) -> list[RunReading]:
        """The runs of an arm, by seed."""
        return [reading for reading in self.runs.values() if reading.arm == number]

    def read(self, chosen: int) -> None:
        """Catch up; the archives of the problem `chosen` go first. Raises DatabaseUnavailable."""
        until = time.monotonic() + LOAD_SECONDS
        read = []
        for run_id, reading in self.runs.items():
            if reading.complete or (not reading.begun and time.monotonic() > until):
                continue
            if not reading.ids and not self._enrolled(run_id, reading):
                reading.begun = reading.record.status != "running"  # what waits for its turn has nothing to be read
                reading.complete = reading.record.status not in ("running", "waiting")
                continue
            ended = reading.record.status not in ("running", "waiting")
            self._read_run(run_id, reading)
            reading.begun, reading.complete = True, ended
            read.append(reading)
        if read:
            self._read_events(read)
        if self.survey is not None:
            self.survey.read(self.store, [arm.done for arm in self.arms], chosen)
        self._read_vectors()

    def _enrolled(self, run_id: int, reading: RunReading) -> bool:
        """Whether the run has its problems; all of them are stored at once."""
        problems = self.store.problems(run_id)
        if not problems:
            return False
        if not self.problems:
            self.problems = tuple(ProblemLine(p.name, p.target, p.objectives) for p in problems)
            targets = [problem.target is not None for problem in self.problems]
            cost = math.lcm(*(arm.answers for arm in self.comparison.arms))
            self.arms = [
                ArmReading.of(targets, len(arm.runs), drawn_times(self.iterations, TIMES_KEPT, cost // arm.answers))
                for arm in self.comparison.arms
            ]
            self.survey = Survey(len(targets), [len(arm.runs) for arm in self.comparison.arms])
        reading.ids = [problem.id for problem in problems[: len(self.problems)]]
        reading.rows = {id: row for row, id in enumerate(reading.ids)}
        assert self.survey is not None
        self.survey.enrol(reading.arm, reading.seed, reading.ids)
        return True

    def _read_run(self, run_id: int, reading: RunReading) -> None:
        arm, column = self.arms[reading.arm], reading.seed
        with self.store.read() as connection:
            upto = readings.newest_sequence(connection, run_id)
            # before the first group the seeds are looked for again each time: they may come after the problems
            if upto > reading.last or upto < 0:
                for problem, count in readings.groups_between(connection, run_id, reading.last, upto):
                    arm.done[reading.rows[problem], column] += count
                for problem, took in readings.solved_between(connection, run_id, reading.last, upto):
                    arm.solved_at[reading.rows[problem], column] = took
                steps = readings.steps_between(connection, run_id, reading.last, upto)
                for step in steps:
                    self._rise(reading, arm, step)
                reading.last = upto if upto >= 0 else readings.BEFORE_SEEDS
                self.version += 1

    def _read_events(self, runs: Sequence[RunReading]) -> None:
        """What is rare: problems that stopped at a fault of their scorer, and steps of a trainer."""
        ids = [reading.record.id for reading in runs]
        with self.store.read() as connection:
            failed = list(readings.failed_problems(connection, ids))
            trained = readings.newest_training(connection, ids)
        for reading in runs:
            reading.failed = {
                reading.rows[problem]: message
                for run, problem, message in failed
                if run == reading.record.id and problem in reading.rows
            }
            self._read_training(reading, trained.get(reading.record.id, -1))

    def _read_training(self, reading: RunReading, newest: int) -> None:
        """The steps since the last look, thinned as the training grows long; the newest one is always there."""
        last = reading.steps[-1] if reading.steps else -1
        if newest <= last:
            return
        every = reading.every
        while newest // every > 2 * STEPS_KEPT:
            every *= 2
        kept = [at for at, step in enumerate(reading.steps) if step % every == 0]
        reading.every, reading.steps = every, [reading.steps[at] for at in kept]
        reading.figures = {name: [values[at] for at in kept] for name, values in reading.figures.items()}
        run_id = reading.record.id
        with self.store.read() as connection:
            found = list(readings.training_between(connection, run_id, last, newest, every))
            reading.version = readings.newest_version(connection, run_id)
        for step, stats in found:
            reading.steps.append(step)
            for name in TRAINING_FIGURES:
                value = stats.get(name)
                known = isinstance(value, int | float) and not isinstance(value, bool)
                reading.figures.setdefault(name, []).append(float(value) if known else float("nan"))  # type: ignore[arg-type]

    def _rise(self, reading: RunReading, arm: ArmReading, step: readings.Step) -> None:
        row, column = reading.rows[step.problem], reading.seed
        before = arm.now[row, column]
        if not (np.isnan(before) or step.fitness > before):
            return
        arm.now[row, column] = step.fitness
        arm.best[row, column, np.searchsorted(arm.times, step.iteration + 1) :] = step.fitness
        if step.created is None:
            return
        line = ImprovementLine(
            self.comparison.arms[reading.arm].name,
            reading.record.seed,
            row,
            step.iteration + 1,
            step.candidate,
            step.fitness,
            None if np.isnan(before) else float(before),
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
            with self.store.read() as connection:
                self._vectors.update(readings.vectors(connection, missing))

    def improvements(self) -> tuple[ImprovementLine, ...]:
        """The newest rises of a best fitness, the last first."""
        lines = []
        for _, candidate, line in sorted(self._recent, key=lambda one: one[:2], reverse=True):
            own, parent = self._vectors.get(candidate, ((), None))
            change = None if parent is None else tuple(a - b for a, b in zip(own, parent, strict=False))
            lines.append(replace(line, rewards=own, change=change))
        return tuple(lines)
