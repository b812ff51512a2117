"""Progress: a run or a comparison as arrays in memory, updated from its database by reading only new rows.

A poll of a search that commits some hundred answers a second takes a few milliseconds, however large the run is, and
statistics over all searches are computed when they are asked for.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nlargest
from itertools import groupby
from typing import NamedTuple

import numpy as np

from evo.comparison.arms import Arm, gather
from evo.comparison.results import Results, drawn_times, worst_values
from evo.comparison.summary import (
    PREFERENCES,
    ArmSummary,
    Curve,
    Summary,
    best_curve,
    farthest,
    preference_curve,
    solve_curve,
    step_curve,
    summarise,
    verdicts_of,
)
from evo.errors import BadInput
from evo.evaluation.preferences import (
    Ints,
    Rises,
    Worth,
    is_share,
    join_units,
    judge_worth,
    judging_weights,
    read_rises,
)
from evo.progress.answer import NO_ORIGIN, problem_of, read_answers, statement_of
from evo.progress.answer_set import AnswerSet, FrontAnswer, choose_sets, read_valid, value_of_set
from evo.progress.snapshot import (
    ArmSnapshot,
    Detail,
    FailedProblem,
    ImprovementLine,
    Snapshot,
)
from evo.search.resources import planned_iterations
from evo.stats.differences import Verdict
from evo.stats.intervals import Interval, mean_interval
from islands.browse import candidate, first_prompt
from islands.comparisons import runs_named
from islands.groups import children
from islands.lock import LOST
from islands.reweigh import reweigh
from islands.runs import (
    BEFORE_SEEDS,
    EliteRecord,
    RunCourse,
    course_between,
    elites,
    failed_problems,
    newest_sequence,
    read_totals,
    run_details,
    run_states,
    spending,
)
from islands.store import Store
from islands.training import TrainingStepRecord, training_steps
from islands.types import ProblemRecord, RunRecord, Totals, sum_totals
from problems.objectives import Objective, Reward, Value, fitness_objective, value_of
from problems.weights import SPREAD
from vpo.metrics import diversity
from vpo.scalarize import Floats

_IMPROVEMENTS_KEPT = 30
_TIMES_KEPT = 1_000
"""Evenly spaced iterations for which best fitnesses are kept: more than the dots of a wide terminal."""
_FEW_PROBLEMS = 12
"""A viewer of so few has room for the best answer to one of them."""
_PACE_SECONDS = 120.0
_ANCESTORS = 12
"""Of a selected answer; a long search has lineages of thousands."""
IN_SEARCH = ("reward", "fitness", "best_of_rollout", "loss", "kl", "entropy", "behaviour_nll", "clipped", "grad_norm")
"""The metrics of a training during a search that are shown, in their order."""

JudgedWeights = Mapping[str, float] | str | None
"""By objective; None, or problems.weights.SPREAD, for the runs as they were searched."""


@contextmanager
def open_runs(db: str, names: Sequence[str], weights: JudgedWeights = None) -> Iterator[Store]:
    """The database, to be read; with weights only these runs and comparisons, judged under them. Raises UnknownRun,
    and BadAddress for weights that do not fit the objectives."""
    with Store.open(db, read_only=True) as store:
        if weights is None or isinstance(weights, str):
            yield store
            return
        runs = {run.id: run for name in names for run in runs_named(store, name)}
        with reweigh(store, list(runs.values()), weights, problem_of) as copy:
            yield copy


class BestSoFar(NamedTuple):
    """A new best answer of a search. iteration: iterations done, 0 for a seed answer; value: as the scorer measured it;
    candidate: its id; before: the best value before it, None for the first; created and sequence (of its group): None
    and -1 for a seed answer"""

    iteration: int
    value: Value
    fitness: Reward
    candidate: int
    before: Value | None
    created: float | None
    sequence: int = -1


@dataclass(eq=False)
class _Run:
    """One run, as far as it has been read. complete: it had ended by then."""

    record: RunRecord
    arm: int
    column: int  # of its arm's arrays
    ids: list[int] = field(default_factory=list)  # of its problems, by index
    last: int = BEFORE_SEEDS
    complete: bool = False
    failed: dict[int, str] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    spent: list[tuple[int, float]] = field(default_factory=list)  # of each group, if a budget is the axis
    steps: list[TrainingStepRecord] = field(default_factory=list)  # of its training, once they were asked for


@dataclass(frozen=True, eq=False)
class _Searches:
    """One arm's searches of all P problems under S seeds, also of those that do not count.

    of: their results, to which newly committed iterations are added; rises: (problem, seed) -> every rise of its best
    answer; metrics: of each problem
    """

    of: Results
    metrics: tuple[tuple[Objective, ...], ...]
    rises: dict[tuple[int, int], list[BestSoFar]] = field(default_factory=dict)

    @classmethod
    def empty(cls, arm: Arm, problems: Sequence[ProblemRecord], iterations: int) -> _Searches:
        shape, times = (len(problems), arm.seeds), drawn_times(iterations, _TIMES_KEPT)
        targets = [math.nan if problem.target is None else math.inf for problem in problems]
        solved_at = np.repeat(np.array(targets)[:, None], arm.seeds, axis=1)
        until_solved = bool(arm.runs[0].config.get("until_solved"))
        best, metrics = np.full((*shape, len(times)), np.nan), tuple(problem.metrics for problem in problems)
        found = Results(
            solved_at, np.zeros(shape, dtype=np.int64), iterations, arm.answers, best, until_solved, times,
            objectives=tuple(map(fitness_objective, metrics)), starts=np.full(shape, np.nan),
        )  # fmt: skip
        return cls(found, metrics)

    def add(self, run: _Run, course: RunCourse) -> Iterator[tuple[int, BestSoFar]]:
        """Add a run's newly committed iterations; gives (row, rise) of every rise of a best fitness."""
        rows, column, best = {id: row for row, id in enumerate(run.ids)}, run.column, self.of.best
        assert best is not None and self.of.starts is not None
        for problem, count in course.groups.items():
            self.of.done[rows[problem], column] += count
        for problem, took in course.solved.items():
            self.of.solved_at[rows[problem], column] = took
        for read in (read for of_problem in course.improvements.values() for read in of_problem):
            at, took = (rows[read.problem], column), read.iteration + 1
            rises = self.rises.setdefault(at, [])
            before = rises[-1] if rises else None
            value = value_of(self.metrics[at[0]], read.fitness, read.values)
            if value.number is not None and (before is None or read.fitness > before.fitness):
                best[(*at, slice(np.searchsorted(self.of.times, took), None))] = value.number
                if not took:  # a seed answer is that of searches that have not begun, too
                    self.of.starts[at] = value.number
                    best[at[0]] = np.where(np.isnan(best[at[0]]), value.number, best[at[0]])
                had = None if before is None else before.value
                rises.append(BestSoFar(took, value, read.fitness, read.candidate, had, read.created, read.sequence))
                yield at[0], rises[-1]


@dataclass(frozen=True)
class SearchRecord:
    """One search: a problem of an arm under one seed.

    arm: its place in the comparison; row: the problem's place among those that count, None for one that does not
    problem_id: in the database, -1 before the run has begun
    solved_at: iterations to the solution, 0 for the seed answer; None if there is none
    """

    arm: int
    run: RunRecord
    row: int | None
    problem_id: int
    problem: ProblemRecord
    iterations: int
    solved_at: int | None
    rises: Sequence[BestSoFar]

    @property
    def best(self) -> BestSoFar | None:
        return self.rises[-1] if self.rises else None


class Progress:
    """A run or a comparison in a database. Not thread-safe; it never writes.

    comparison: its arms, the problems that count and those that do not
    incomparable: why the arms have no summary, "" if they have one or if none has begun
    rescored: whether the scorer of a problem differs from run to run
    """

    def __init__(
        self,
        store: Store,
        name: str,
        against: str | None = None,
        *,
        spread: bool = False,
    ) -> None:
        """Reads which runs there are, and nothing more. Raises as gather. spread: judge under many weightings although
        the run was not searched for them. BadInput if its arms stopped when they were solved, so that they gave
        different numbers of answers"""
        self.store, self.name, self.against = store, name, against
        self.incomparable, self._asked, self._optima = "", spread, dict[int, Floats | None]()
        self._begin()

    @classmethod
    def open(cls, store: Store, name: str, against: str | None = None, *, spread: bool = False) -> Progress:
        """All that is committed now. Raises as __init__, and DatabaseUnavailable."""
        with store.read():
            progress = cls(store, name, against, spread=spread)
            progress.refresh()
        return progress

    def _begin(self) -> None:
        self.comparison = gather(self.store, self.name, self.against)
        runs = self.comparison.runs
        if self.spread and len(self.comparison.arms) > 1 and any(run.config.get("until_solved") for run in runs):
            raise BadInput(f"--weights {SPREAD}: {self.name} stopped each search when it was solved (--until-solved)")
        self._runs = {
            run.id: _Run(run, arm, column)
            for arm, of in enumerate(self.comparison.arms)
            for column, run in enumerate(of.runs)
        }
        self._all: tuple[ProblemRecord, ...] = ()  # also those that do not count
        self.rescored = False
        self._searches: list[_Searches] = []
        self._version = 0
        self._answer: tuple[object, Detail] | None = None  # that a viewer has chosen, with the state that it is of
        self._forget()
        self._recent: list[tuple[_Run, int, BestSoFar]] = []  # the newest first, with their rows
        self._pace: deque[tuple[float, int]] = deque()

    @property
    def spread(self) -> bool:
        """Whether searches are judged under many weightings (evo.evaluation.preferences)."""
        return self._asked or self.comparison.runs[0].config.get("weights") == SPREAD

    # Reading

    def refresh(self) -> None:
        """Read all new rows that are committed. Raises DatabaseUnavailable, UnknownRun if the runs were deleted."""
        before = self._basis
        try:
            with self.store.read():
                self._refresh()
        finally:  # a reading that failed may have read some runs
            if self._basis != before:
                self._forget()

    def _refresh(self) -> None:
        states = run_states(self.store, self.name)
        if {state.id for state in states} != set(self._runs):
            self._begin()
            return self._refresh()
        moved = [
            one.id for one in states if one.status == "running" or one.updated != self._runs[one.id].record.updated
        ]
        with self.store.read() as connection:
            records = run_details(connection, moved)
        iterations = self.comparison.iterations
        for state in states:
            run = self._runs[state.id]
            changed = {**records.get(state.id, {}), "status": state.status}
            changed |= {"reason": LOST} if state.lost else {}
            if run.complete and state.status == "running":  # resumed, perhaps with reopened problems
                self._begin()
                return self._refresh()
            run.record = replace(run.record, **changed)
        arms = tuple(
            replace(arm, runs=tuple(run.record for run in self._of_arm(number)))
            for number, arm in enumerate(self.comparison.arms)
        )
        self.comparison = replace(self.comparison, arms=arms)
        if self.comparison.iterations != iterations:
            self._begin()
            return self._refresh()
        read = []
        for run in (run for run in self._runs.values() if not run.complete):
            if run.ids or self._enrol(run):
                self._read_run(run)
                read.append(run)
            run.complete = run.record.status not in ("running", "waiting")
        if read:
            self._read_faults(read)
        return None

    def _of_arm(self, number: int) -> list[_Run]:
        return [run for run in self._runs.values() if run.arm == number]

    def _enrol(self, run: _Run) -> bool:
        """Whether the run has its problems; all of them are stored at once."""
        problems = self.store.problems(run.record.id)
        if not problems:
            return False
        if not self._all:
            self._all = tuple(problems)
            arms, iterations = self.comparison.arms, self.comparison.iterations
            self._searches = [_Searches.empty(arm, problems, iterations) for arm in arms]
            self._count_problems()
        run.ids = [problem.id for problem in problems[: len(self._all)]]
        self.rescored |= any(a.fingerprint != b.fingerprint for a, b in zip(self._all, problems, strict=False))
        return True

    def _count_problems(self) -> None:
        """Ask again which problems count. The records of runs stay those that were read last."""
        now = gather(self.store, self.name, self.against)
        self.comparison = replace(self.comparison, problems=now.problems, failed=now.failed)
        self._version += 1

    def _read_run(self, run: _Run) -> None:
        id, searches = run.record.id, self._searches[run.arm]
        with self.store.read() as connection:
            upto = newest_sequence(connection, id)
            # read the seeds each time before the first iteration: they may be stored after the problems
            if upto > run.last or upto < 0:
                course = course_between(connection, id, run.last, upto)
                new = [(run, row, rise) for row, rise in searches.add(run, course) if rise.created is not None]
                self._recent = nlargest(
                    _IMPROVEMENTS_KEPT, [*self._recent, *new], key=lambda one: (one[2].created, one[2].candidate)
                )
                run.totals = read_totals(connection, [id])[id]
                run.last = upto if upto >= 0 else BEFORE_SEEDS
                self._version += 1

    def _read_faults(self, runs: Sequence[_Run]) -> None:
        """Read which problems a scorer's fault has stopped."""
        with self.store.read() as connection:
            failed = list(failed_problems(connection, [run.record.id for run in runs]))
        for run in runs:
            now = {run.ids.index(problem): message for of, problem, message in failed if of == run.record.id}
            if now != run.failed:
                run.failed = now
                self._count_problems()

    # Values. Each is computed once for what was read.

    @property
    def _basis(self) -> tuple[object, ...]:
        """What the values depend on."""
        comparison = self.comparison
        return self._version, comparison.budget, *(run.status for run in comparison.runs)

    def _forget(self) -> None:
        """Compute the values again when they are asked for."""
        for name, value in vars(Progress).items():
            if isinstance(value, cached_property):
                vars(self).pop(name, None)

    @property
    def _rows(self) -> list[int]:
        """The rows of the problems that count."""
        return [problem.index for problem in self.comparison.problems if problem.index < len(self._all)]

    @cached_property
    def results(self) -> Mapping[str, Results]:
        """Each arm's searches of the problems that count; empty before one has begun, or if none counts."""
        if not self._rows:
            return {}
        found = {
            arm.name: searches.of.only(self._rows)
            for arm, searches in zip(self.comparison.arms, self._searches, strict=True)
        }
        missing = worst_values(list(found.values()))
        found = {name: replace(of, missing=missing) for name, of in found.items()}
        wanted = all(run.status == "done" and (run.config.get("set_size") or 1) > 1 for run in self.comparison.runs)
        if wanted and any(len(self._all[row].objectives) > 1 for row in self._rows):
            found = {name: replace(of, sets=self._set_values(at)) for at, (name, of) in enumerate(found.items())}
        if self.comparison.ended_by_budget:
            return {name: replace(of, done=np.full_like(of.done, of.iterations)) for name, of in found.items()}
        return {name: replace(of, done=self._known_for(at, of)) for at, (name, of) in enumerate(found.items())}

    def _known_for(self, arm: int, of: Results) -> Ints:
        """(P, S) the iterations for which each search of an arm is known: all of them where patience ended it."""
        records = [run.record for run in self._of_arm(arm)]
        patient = [record.status == "done" and bool(record.config.get("patience")) for record in records]
        return np.where(np.array(patient) & (of.done < self._planned(arm)[self._rows]), of.iterations, of.done)

    def _planned(self, arm: int) -> Ints:
        """The iterations (all problems, S) that each search of an arm is to do."""
        return np.transpose([planned_iterations(run.record.config, len(self._all)) for run in self._of_arm(arm)])

    def _set_values(self, arm: int) -> Floats:
        """(P, S) of the best sets of an arm's searches."""
        values = np.zeros((len(self._rows), self.comparison.arms[arm].seeds))
        for run in self._of_arm(arm):
            records = [replace(self._all[row], id=run.ids[row]) for row in self._rows]
            values[:, run.column] = [value_of_set(self.store, one, run.record.config["set_size"]) for one in records]
        return values

    @cached_property
    def measured(self) -> Mapping[str, Results]:
        """The same, for metrics and curves: over what the runs have spent, in _TIMES_KEPT steps, if a budget ended some
        of them (Comparison.budget)."""
        if self.comparison.budget is None:
            return self.results
        (unit, size), found = self.comparison.budget, dict[str, Results]()
        for number, (name, of) in enumerate(self.results.items()):
            solved_at, done = of.solved_at.copy(), np.zeros_like(of.done)
            best = np.full((*done.shape, _TIMES_KEPT), np.nan)
            for run in self._of_arm(number):
                after = run.spent[-1][0] if run.spent else BEFORE_SEEDS
                with self.store.read() as connection:
                    run.spent += spending(connection, run.record.id, after, run.last, unit)
                sequences, share = _steps(run, size)
                done[:, run.column] = _TIMES_KEPT if run.record.status == "done" else int(share[-1])
                for at, row in enumerate(self._rows):
                    for rise in self._searches[number].rises.get((row, run.column), ()):
                        step = math.ceil(share[np.searchsorted(sequences, rise.sequence)])
                        best[at, run.column, max(0, step - 1) :] = rise.value.number
                        if rise.iteration == of.solved_at[at, run.column]:
                            solved_at[at, run.column] = step
            found[name] = replace(
                of, solved_at=solved_at, done=done, iterations=_TIMES_KEPT, answers=1, best=best, unit=unit,
                size=size / _TIMES_KEPT, times=np.zeros(0, dtype=np.int64),
            )  # fmt: skip
        return found

    @cached_property
    def preferences(self) -> Mapping[str, Results]:
        """`measured`, judged under many weightings if that is asked for."""
        measured, arms = self.measured, self.comparison.arms
        if not measured or not self.spread:
            return measured
        shape = (len(self._rows), max(arm.seeds for arm in arms), len(next(iter(measured.values())).times) + 1)
        plain, shares, solved = (np.full((len(arms), *shape), np.nan) for _ in range(3))
        judged = list[Worth]()
        for at, row in enumerate(self._rows):
            weights = judging_weights(len(self._all[row].objectives))
            runs = [run for run in self._runs.values() if run.ids]
            of = [children(self.store, run.ids[row], upto=max(run.last, BEFORE_SEEDS + 1)) for run in runs]
            rises = [read_rises(answers, weights) for answers in of]
            judged.append(worth := judge_worth(rises, self._optimum(row, weights)))
            plain[:, at], shares[:, at] = worth.start, 0.0
            solved[:, at] = math.nan if worth.solved is None else 0.0
            for number, (run, rise) in enumerate(zip(runs, rises, strict=True)):
                place = (run.arm, at, run.column)
                for step, moment in enumerate(self._moments(run, rise)):
                    plain[(*place, slice(moment, None))] = worth.plain[number][step]
                    if worth.shares:
                        shares[(*place, slice(moment, None))] = worth.shares[number][step]
                    if worth.solved is not None:
                        solved[(*place, slice(moment, None))] = worth.solved[number][step]
        unit = join_units([self._all[row].name for row in self._rows], judged)
        worths = shares if is_share(unit) else plain
        return {
            name: replace(
                of, worth=worths[arm, :, : arms[arm].seeds], weightings=solved[arm, :, : arms[arm].seeds],
                worth_unit=unit,
            )
            for arm, (name, of) in enumerate(measured.items())
        }  # fmt: skip

    def _moments(self, run: _Run, rises: Rises) -> list[int]:
        """The places of rises on the axis of `measured`, 0 for seed answers."""
        of = self.measured[self.comparison.arms[run.arm].name]
        if self.comparison.budget:
            sequences, share = _steps(run, self.comparison.budget[1])
            steps = np.ceil(share[np.searchsorted(sequences, rises.sequences)])
        else:
            steps = np.searchsorted(of.times, rises.iterations) + 1
        return [int(step) for step in np.where(rises.sequences < 0, 0, np.maximum(1, steps))]

    def _optimum(self, row: int, weights: Floats) -> Floats | None:
        """(W,) what solves a problem under each weighting; None if that is not known, or if the problem is scored in
        another way now. Computed once."""
        if row not in self._optima:
            problem = problem_of(self._all[row])
            found = [None if problem is None else problem.target_under(each) for each in weights.tolist()]
            known = [each for each in found if each is not None]
            self._optima[row] = np.array(known) if len(known) == len(found) else None
        return self._optima[row]

    @cached_property
    def summary(self) -> Summary | None:
        """All arms at the horizon; None before a search has begun. Without metrics if the arms are not comparable."""
        results, self.incomparable = self.preferences, ""
        if not results:
            return None
        try:
            return summarise(results, self.comparison.reference, crossed_seeds=self.comparison.crossed_seeds)
        except ValueError as error:
            self.incomparable = str(error)
        first = next(iter(results.values()))
        nothing = {name: ArmSummary() for name in results}
        return Summary(first.iterations, first.solved_at.shape[1], 0, 0, None, nothing, measure=first.measure)

    @property
    def verdicts(self) -> list[Verdict]:
        summary = self.summary if len(self.comparison.arms) > 1 else None
        return [] if summary is None else verdicts_of(summary)

    @cached_property
    def curves(self) -> Mapping[str, Curve]:
        """Each arm's solve rate if problems have targets, else its mean best value, as `measured`."""
        return self._draw(solve=True)

    @cached_property
    def best_curves(self) -> Mapping[str, Curve]:
        """Each arm's mean best value."""
        return self._draw(solve=False)

    @cached_property
    def preference_curves(self) -> Mapping[str, Mapping[str, Curve]]:
        """Metric of PREFERENCES -> each arm's curve, of the metrics that are known; empty if they were not asked
        for."""
        found: dict[str, dict[str, Curve]] = {}
        for name, arm in self.preferences.items() if self.spread else ():
            of = farthest({name: arm})[name]
            for metric in PREFERENCES:
                curve = preference_curve(of, metric, crossed_seeds=self.comparison.crossed_seeds)
                if curve is not None:
                    found.setdefault(metric, {})[name] = curve
        return found

    def _draw(self, *, solve: bool) -> dict[str, Curve]:
        # seeds are searched in turn: a seed that has just begun would cut the curves of earlier ones short
        results = {name: farthest({name: arm})[name] for name, arm in self.measured.items()}
        curves: dict[str, Curve] = {}
        for name, arm in results.items():
            if solve and arm.judged.any():
                curves[name] = solve_curve(arm, crossed_seeds=self.comparison.crossed_seeds)
            elif arm.best_horizon:
                curves[name] = best_curve(arm, crossed_seeds=self.comparison.crossed_seeds)
        return curves

    @cached_property
    def diversity(self) -> Mapping[str, Interval | None]:
        """Arm -> the diversity of its archives: the mean L1 distance of two elites' reward vectors, mean over problems;
        None before there are any."""
        crossed, found = self.comparison.crossed_seeds, dict[str, Interval | None]()
        for number, arm in enumerate(self.comparison.arms):
            spread = np.full((len(self._rows), len(arm.runs)), np.nan)
            for run in self._of_arm(number) if self._rows else ():
                place = {run.ids[row]: at for at, row in enumerate(self._rows) if run.ids}
                for problem, archive in groupby(elites(self.store, list(place)), key=lambda elite: elite.problem):
                    spread[place[problem], run.column] = archive_diversity(archive)
            known = spread[:, np.isfinite(spread).any(axis=0)] if np.isfinite(spread).any() else spread[:0]
            known = known[np.isfinite(known).all(axis=1)]
            found[arm.name] = mean_interval(known, crossed_seeds=crossed) if len(known) else None
        return found

    @cached_property
    def sets(self) -> list[AnswerSet]:
        """The best set of answers to each problem, without held-out scores, of a single run that is to show it."""
        runs = self.comparison.runs
        return choose_sets(self.store, runs, spread=self.spread) if len(runs) == 1 else []

    def training(self, number: int) -> dict[str, Curve]:
        """The metrics of IN_SEARCH over the steps of the arm's run that was trained last. Reads the new steps alone."""
        steps = list[TrainingStepRecord]()
        for run in self._of_arm(number):
            run.steps += training_steps(self.store, run.record.id, run.steps[-1].step if run.steps else -1)
            steps = run.steps or steps
        curves = {name: step_curve([(step.step, step.stats.get(name)) for step in steps]) for name in IN_SEARCH}
        return {name: curve for name, curve in curves.items() if np.isfinite(curve.mean).any()}

    def searches(self, *, failed: bool = False) -> Iterator[SearchRecord]:
        """Every search of the problems that count, by arm, seed and problem; with `failed` also of the others."""
        place = {row: at for at, row in enumerate(self._rows)}
        for number in range(len(self.comparison.arms)):
            for run in self._of_arm(number):
                for row in range(len(self._all)) if failed else self._rows:
                    searches, at = self._searches[number], (row, run.column)
                    took = float(searches.of.solved_at[at])
                    yield SearchRecord(
                        number,
                        run.record,
                        place.get(row),
                        run.ids[row] if run.ids else -1,
                        self._all[row],
                        int(searches.of.done[at]),
                        int(took) if math.isfinite(took) else None,
                        searches.rises.get(at, ()),
                    )

    @property
    def totals(self) -> Totals:
        """Of all runs."""
        return sum_totals(run.totals for run in self._runs.values())

    @property
    def failed(self) -> tuple[FailedProblem, ...]:
        """The problems that do not count, with each arm that a fault stopped."""
        arms = self.comparison.arms
        found = {(row, run.arm): message for run in self._runs.values() for row, message in run.failed.items()}
        return tuple(
            FailedProblem(self._all[row].name, arms[arm].name, message) for (row, arm), message in sorted(found.items())
        )

    def fittest(self) -> dict[tuple[int, int], SearchRecord]:
        """(the problem's place, the arm's) -> the search with the fittest answer, the first seed of equals."""
        found: dict[tuple[int, int], SearchRecord] = {}
        for search in self.searches():
            if search.rises and search.row is not None:
                held = found.setdefault((search.row, search.arm), search)
                if search.rises[-1].fitness > held.rises[-1].fitness:
                    found[search.row, search.arm] = search
        return found

    def best(self, problem: int, number: int) -> Detail:
        """An arm's fittest answer to a problem, each by its place, that of the problem among those that count."""
        search, arm = self.fittest().get((problem, number)), self.comparison.arms[number].name
        run = self._of_arm(number)[0].record if search is None else search.run
        records = self.store.problems(run.id)
        if not records:
            return Detail(arm, problem)
        record = records[self._rows[problem]]
        if search is None:
            first = first_prompt(self.store, run.id, record.id) or NO_ORIGIN
            return Detail(arm, problem, run.seed, origin=first, stated=statement_of(record))
        id = search.rises[-1].candidate
        answer = read_answers(self.store, {id: record}, lineage=_ANCESTORS)[id]
        stated = statement_of(record, answer.candidate.text)
        first = first_prompt(self.store, run.id, record.id) or NO_ORIGIN
        origin = first if answer.origin is NO_ORIGIN else answer.origin
        return Detail(arm, problem, run.seed, candidate(self.store, id), answer, origin, stated)

    def read_valid(self, problem: int) -> list[FrontAnswer]:
        """Every valid answer to a problem, by its place among those that count."""
        row, arms = self._rows[problem], range(len(self.comparison.arms))
        begun = [(arm, run) for arm in arms for run in self._of_arm(arm) if run.ids]
        return read_valid(self.store, [(arm, run.record, run.ids[row]) for arm, run in begun])

    # The snapshot of a viewer

    def snapshot(self, now: float | None = None, *, statistics: bool = True) -> Snapshot:
        """The values of a screen, of what was read. statistics: with curves, summary and verdict, which load their
        libraries"""
        comparison, begun = self.comparison, bool(self.results)
        snapshot = Snapshot(
            self.name,
            tuple(self._arm(number, statistics) for number in range(len(comparison.arms))),
            tuple(self._all[row] for row in self._rows),
            comparison.reference,
            comparison.failed,
            self.summary if statistics and begun else None,
            tuple(self.verdicts) if statistics and begun else (),
            self._improvements() if begun else (),
        )
        return replace(snapshot, remaining=self._seconds_left(time.time() if now is None else now, snapshot))

    def snapshot_with_best(self, problem: int = 0, arm: int | None = None) -> Snapshot:
        """The same with an arm's best answer to a problem in full, each by its place, that of the problem among those
        that count. arm: None for the arm that is ahead, of few problems"""
        snapshot = self.snapshot()
        if not snapshot.problems or (arm is None and len(snapshot.problems) > _FEW_PROBLEMS):
            return snapshot
        problem = min(problem, len(snapshot.problems) - 1)
        if arm is None:
            found = {arm: search.rises[-1].fitness for (of, arm), search in self.fittest().items() if of == problem}
            arm = max(found, key=found.__getitem__, default=0)
        rises = [self._searches[arm].rises.get((self._rows[problem], run.column), ()) for run in self._of_arm(arm)]
        state = (problem, arm, *map(len, rises))
        if self._answer is None or self._answer[0] != state:  # a new best answer, or another choice
            self._answer = state, self.best(problem, arm)
        return replace(snapshot, detail=self._answer[1])

    def _arm(self, number: int, statistics: bool) -> ArmSnapshot:
        of, runs = self.comparison.arms[number], self._of_arm(number)
        snapshot = ArmSnapshot(
            of.name,
            of.runs,
            planned=sum(
                sum(planned_iterations(record.config, len(self._all or record.config.get("problems", ()))))
                for record in of.runs
            ),
            totals=sum_totals(run.totals for run in runs),
        )
        if not self._searches:
            return snapshot
        whole = self._searches[number].of
        over = np.isfinite(whole.solved_at) & whole.until_solved
        for run in runs:
            over[list(run.failed), run.column] = True
        return replace(
            snapshot,
            groups=int(whole.done.sum()),
            planned=int(np.where(over, whole.done, self._planned(number)).sum()),
            results=self.results.get(of.name),
            curve=self.curves.get(of.name) if statistics and self.results else None,
        )

    def _improvements(self) -> tuple[ImprovementLine, ...]:
        """The newest best answers, the last first."""
        place = {row: at for at, row in enumerate(self._rows)}
        return tuple(
            ImprovementLine(
                self.comparison.arms[run.arm].name, run.record.seed, place[row], rise.iteration, rise.candidate,
                rise.value, rise.before, rise.created or 0.0,
            )
            for run, row, rise in self._recent
            if row in place
        )  # fmt: skip

    def _seconds_left(self, now: float, snapshot: Snapshot) -> float | None:
        """The time left at the pace of the last _PACE_SECONDS, and at most that of a budget of seconds."""
        self._pace.append((now, snapshot.groups))
        while len(self._pace) > 2 and self._pace[1][0] < now - _PACE_SECONDS:
            self._pace.popleft()
        then, had = self._pace[0]
        if now - then < 1.0 or snapshot.groups <= had:
            return None
        left = max(0, snapshot.planned - snapshot.groups) * (now - then) / (snapshot.groups - had)
        running = [record for record in self.comparison.runs if record.status in ("running", "waiting")]
        budgets = [(record.config.get("max_seconds") or 0.0, record.summary.get("seconds")) for record in running]
        if not budgets or not all(budget for budget, _ in budgets):
            return left
        rest = max(float(budget) - (float(spent) if isinstance(spent, int | float) else 0) for budget, spent in budgets)
        return min(left, max(0.0, rest))


def _steps(run: _Run, size: float) -> tuple[Floats, Floats]:
    """The sequences of a run's groups, from -1 on, and the steps of the budget that were spent after each. size: the
    budget"""
    sequences, spent = np.array([(-1, 0.0), *run.spent]).T
    return sequences, np.minimum(np.cumsum(spent) / size, 1.0) * _TIMES_KEPT


def archive_diversity(archive: Iterable[EliteRecord]) -> float:
    """Mean L1 distance of two elites' reward vectors, over all islands together. An elite of several cells counts
    once."""
    vectors = {elite.candidate: elite.rewards for elite in archive}
    return diversity(np.array([vectors[candidate] for candidate in sorted(vectors)])) if vectors else 0.0
