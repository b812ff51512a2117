"""A comparison's searches as arrays in memory, kept up with the database by reading only what is new.

A large comparison is read run by run, a part of it per call, so that a screen opened on it shows something at once.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evo.comparison.load import Comparison, SearchArrays
from evo.comparison.results import drawn_times
from evo.monitor.archive_survey import Survey
from evo.monitor.snapshot import ImprovementLine, ProblemLine
from islands.db.store import Store
from islands.db.totals import Totals, read_totals
from islands.queries import live
from islands.queries.operators import summed_counts
from islands.types import OperatorCount, RunRecord

LOAD_SECONDS = 0.25
"""How long one call may read runs that were not read before; a run once begun is read to its end."""
IMPROVEMENTS_KEPT = 30
TIMES_KEPT = 1_000
"""Iterations, evenly spread, after which best fitnesses are kept: more than the dots of a wide terminal."""
STEPS_KEPT = 500
"""Of a trainer; from twice as many on, every other one is left out."""
TRAINING_FIGURES = ("loss", "kl", "fitness", "best_of_rollout", "reward", "behaviour_nll", "clipped", "grad_norm")


@dataclass(eq=False)
class RunCache:
    """One run as far as it has been read."""

    record: RunRecord
    arm: int
    seed: int  # the column of its arm's arrays
    rows: dict[int, int] = field(default_factory=dict)  # problem id -> index
    ids: list[int] = field(default_factory=list)
    last: int = live.BEFORE_SEEDS
    complete: bool = False  # it had ended when it was last read
    begun: bool = False
    failed: dict[int, str] = field(default_factory=dict)
    steps: list[int] = field(default_factory=list)  # a multiple of `every` each, and the newest
    every: int = 1
    metrics: dict[str, list[float]] = field(default_factory=dict)
    version: str = ""
    counts: list[OperatorCount] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)


class LiveCache:
    """Not for several threads at once; never writes.

    runs: by id; records are brought up to date by whoever calls `read`
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
        """Runs that have been read to where they were at some time."""
        return sum(cached.begun for cached in self.runs.values())

    @property
    def failed(self) -> set[int]:
        """Problems, by index, that a fault of their scorer stopped in some run."""
        return {row for cached in self.runs.values() for row in cached.failed}

    def of_arm(self, number: int) -> list[RunCache]:
        """The runs of an arm, by seed."""
        return [cached for cached in self.runs.values() if cached.arm == number]

    def read(self, chosen: int) -> None:
        """Catch up; the archives of the problem `chosen` go first. Raises DatabaseUnavailable."""
        until = time.monotonic() + LOAD_SECONDS
        read = []
        for run_id, cached in self.runs.items():
            if cached.complete or (not cached.begun and time.monotonic() > until):
                continue
            if not cached.ids and not self._enrolled(run_id, cached):
                cached.begun = cached.record.status != "running"  # what waits for its turn has nothing to be read
                cached.complete = cached.record.status not in ("running", "waiting")
                continue
            ended = cached.record.status not in ("running", "waiting")
            self._read_run(run_id, cached)
            cached.begun, cached.complete = True, ended
            read.append(cached)
        if read:
            self._read_events(read)
        if self.survey is not None:
            self.survey.read(self.store, [arm.done for arm in self.arms], chosen)
        self._read_vectors()

    def read_archives(self, chosen: int, seconds: float) -> None:
        """All of them that have changed, at once, those of the problem `chosen` first; no longer than `seconds`."""
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
            # before the first group the seeds are looked for again each time: they may come after the problems
            if upto > cached.last or upto < 0:
                course = live.course_between(connection, run_id, cached.last, upto)
                for row, rise, before in arm.add(column, cached.rows, course):
                    self._remember(cached, row, rise, before)
                cached.counts = summed_counts(connection, run_id)
                cached.totals = read_totals(connection, [run_id])[run_id]
                cached.last = upto if upto >= 0 else live.BEFORE_SEEDS
                self.version += 1

    def _read_events(self, runs: Sequence[RunCache]) -> None:
        """What is rare: problems that stopped at a fault of their scorer, and steps of a trainer."""
        ids = [cached.record.id for cached in runs]
        with self.store.read() as connection:
            failed = list(live.failed_problems(connection, ids))
            trained = live.newest_training(connection, ids)
        for cached in runs:
            cached.failed = {
                cached.rows[problem]: message
                for run, problem, message in failed
                if run == cached.record.id and problem in cached.rows
            }
            self._read_training(cached, trained.get(cached.record.id, -1))

    def _read_training(self, cached: RunCache, newest: int) -> None:
        """The steps since the last look, thinned as the training grows long; the newest one is always there."""
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
            found = list(live.training_between(connection, run_id, last, newest, every))
            cached.version = live.newest_version(connection, run_id)
        for step, stats in found:
            cached.steps.append(step)
            for name in TRAINING_FIGURES:
                value = stats.get(name)
                known = isinstance(value, int | float) and not isinstance(value, bool)
                cached.metrics.setdefault(name, []).append(float(value) if known else float("nan"))  # type: ignore[arg-type]

    def _remember(self, cached: RunCache, row: int, step: live.Rise, before: float) -> None:
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
            with self.store.read() as connection:
                self._vectors.update(live.vectors(connection, missing))

    def improvements(self) -> tuple[ImprovementLine, ...]:
        """The newest rises of a best fitness, the last first."""
        lines = []
        for _, candidate, line in sorted(self._recent, key=lambda one: one[:2], reverse=True):
            own, parent = self._vectors.get(candidate, ((), None))
            change = None if parent is None else tuple(a - b for a, b in zip(own, parent, strict=False))
            lines.append(replace(line, rewards=own, change=change))
        return tuple(lines)
